//! What the kernel offers to every program, made safe to use: bounds on processor time.

pub mod cpu_time;
