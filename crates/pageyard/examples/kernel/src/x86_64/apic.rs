//! Each CPU's own interrupt controller: its number, its timer, and starting another CPU.

/// Registers, by how far they lie from the controller's start.
#[derive(Clone, Copy)]
#[repr(usize)]
enum Register {
    Number = 0x20,
    EndOfInterrupt = 0xb0,
    Spurious = 0xf0,
    CommandLow = 0x300,
    CommandHigh = 0x310,
    Timer = 0x320,
    InitialCount = 0x380,
    Divider = 0x3e0,
}

fn register(register: Register) -> *mut u32 {
    (0xfee0_0000 + register as usize) as *mut u32
}

fn write(to: Register, value: u32) {
    // SAFETY: a register of this CPU's controller, which lies at its address.
    unsafe { register(to).write_volatile(value) };
}

/// Returns this CPU's number.
pub fn number() -> u32 {
    // SAFETY: as above.
    unsafe { register(Register::Number).read_volatile() >> 24 }
}

pub fn end_of_interrupt() {
    write(Register::EndOfInterrupt, 0);
}

/// Interrupts this CPU again and again, some thousand times a second.
pub fn start_timer(vector: u8) {
    write(Register::Spurious, 0x1ff);
    // A sixteenth of the bus's clock, periodic.
    write(Register::Divider, 3);
    write(Register::Timer, 1 << 17 | u32::from(vector));
    write(Register::InitialCount, 10_000);
}

/// Starts a CPU at an address below 1 MiB, in real mode.
pub fn start_cpu(number: u32, at: u64) {
    write(Register::Spurious, 0x1ff);
    let tell = |what: u32| {
        write(Register::CommandHigh, number << 24);
        write(Register::CommandLow, what);
        // Longer than the processor needs.
        for _ in 0..1_000_000 {
            core::hint::spin_loop();
        }
    };
    tell(0x4500); // INIT
    tell(0x4600 | (at >> 12) as u32); // start
}
