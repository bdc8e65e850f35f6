//! Random hosts that ignore every answer. The fuzz target `host` runs the same.

use ttsr_testing::{Random, any_host, in_parts, scale};

#[test]
fn no_host_can_take_what_a_rule_holds_redacts_or_cuts() {
    in_parts(scale(20_000), |seeds| {
        for seed in seeds {
            let mut random = Random::new(seed as u64);
            let len = random.below(400);
            let data: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
            let failed = std::panic::catch_unwind(|| any_host::run(&data)).is_err();
            assert!(!failed, "seed {seed}");
        }
    });
}
