//! Stacks: captured as addresses, kept once each, and given names when they are printed.

use std::collections::HashMap;

/// Frames of a stack that are captured at most, the observer's own included.
pub(super) const DEEPEST: usize = 64;

/// A stack, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct StackId(u32);

/// Return addresses, the innermost first.
pub(super) type Addresses = [usize];

/// Every stack that was seen.
#[derive(Debug, Default)]
pub(super) struct Stacks {
    ids: HashMap<Box<Addresses>, StackId>,
    all: Vec<Box<Addresses>>,
}

impl Stacks {
    /// Returns the number of a stack.
    pub(super) fn id(&mut self, addresses: &Addresses) -> StackId {
        if let Some(id) = self.ids.get(addresses) {
            return *id;
        }
        let id = StackId(self.all.len() as u32);
        self.ids.insert(addresses.into(), id);
        self.all.push(addresses.into());
        id
    }

    /// Returns the addresses of a stack.
    pub(super) fn get(&self, id: StackId) -> &Addresses {
        &self.all[id.0 as usize]
    }
}

/// Captures the stack of the caller, up to so many frames.
pub(super) fn capture(depth: usize, addresses: &mut [usize; DEEPEST]) -> &Addresses {
    let mut n = 0;
    let most = depth.min(DEEPEST);
    if most > 0 {
        backtrace::trace(|frame| {
            let ip = frame.ip().addr();
            // The outermost frame has no caller.
            if ip != 0 {
                addresses[n] = ip;
                n += 1;
            }
            n < most
        });
    }
    &addresses[..n]
}

/// Returns the functions of a stack, the innermost first, without those of the allocator, of what captured the stack,
/// and of what started the program. A function that was inlined stands in front of the one it is in.
pub(super) fn names(addresses: &Addresses) -> Vec<String> {
    let mut all = Vec::new();
    for address in addresses {
        let mut named = false;
        // A return address is behind the call.
        let call = std::ptr::without_provenance_mut(address.saturating_sub(1));
        backtrace::resolve(call, |symbol| {
            let Some(name) = symbol.name() else { return };
            named = true;
            let place =
                symbol.filename().and_then(|file| Some((file.file_name()?.to_owned(), symbol.lineno()?)));
            all.push(match place {
                Some((file, line)) => format!("{name:#} ({}:{line})", file.display()),
                None => format!("{name:#}"),
            });
        });
        if !named {
            all.push(format!("{address:#x}"));
        }
    }
    // What the allocator calls of the language's library is its own, too; what calls the allocator is not.
    let inner = all.iter().take_while(|name| is_of(name, &ALLOCATOR) || is_of(name, &["core::"]));
    let own =
        inner.enumerate().filter(|(_, name)| is_of(name, &ALLOCATOR)).last().map_or(0, |(nth, _)| nth + 1);
    let mut all = all.split_off(if own < all.len() { own } else { 0 });
    // What started the program or the thread says nothing.
    if let Some(outer) = all.iter().position(|name| name.contains("__rust_begin_short_backtrace"))
        && outer > 0
    {
        all.truncate(outer);
    }
    all
}

/// The crates whose functions are left out.
const ALLOCATOR: [&str; 5] =
    ["backtrace::", "pageyard::", "pageyard_core::", "pageyard_arena::", "pageyard_debug::"];

/// Returns whether a function is one of these crates', or of a type of theirs.
fn is_of(name: &str, crates: &[&str]) -> bool {
    let mut path = name.trim_start_matches(['<', '&', '(']);
    path = path.strip_prefix("dyn ").unwrap_or(path);
    crates.iter().any(|own| path.starts_with(own))
}
