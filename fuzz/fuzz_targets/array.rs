#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ttsr_fuzz::targets::array::run(data));
