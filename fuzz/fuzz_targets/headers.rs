#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| mrtr_fuzz::headers::run(data));
