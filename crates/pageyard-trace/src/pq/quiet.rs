//! Runs a third-party decoder so that its panic becomes a value.

use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    /// How many calls of [`catch`] this thread is inside.
    static CATCHING: Cell<u32> = const { Cell::new(0) };
}

static HOOK: Once = Once::new();

/// Calls `f`; a panic inside it is returned as its message and not printed.
///
/// # Concurrency
/// The hook that keeps the message off standard error is installed once in front of the program's own, and looks only
/// at a flag of the panicking thread: panics of other threads, and of this one outside `catch`, are printed as before.
pub(crate) fn catch<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            // A thread that is being torn down has no flag any more, and nothing to hide.
            if CATCHING.try_with(Cell::get).unwrap_or(0) == 0 {
                before(info);
            }
        }));
    });
    CATCHING.with(|c| c.set(c.get() + 1));
    let result = panic::catch_unwind(AssertUnwindSafe(f));
    CATCHING.with(|c| c.set(c.get() - 1));
    result.map_err(|payload| message(&*payload))
}

fn message(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "the decoder stopped".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_its_message() {
        assert_eq!(catch(|| 1), Ok(1));
        assert_eq!(catch(|| -> u8 { panic!("index {} of {}", 3, 2) }), Err("index 3 of 2".to_owned()));
        assert_eq!(catch(|| -> u8 { panic!("plain") }), Err("plain".to_owned()));
    }

    #[test]
    fn the_flag_is_down_again_after_a_panic() {
        let _ = catch(|| -> u8 { panic!("x") });
        assert_eq!(CATCHING.with(Cell::get), 0);
    }
}
