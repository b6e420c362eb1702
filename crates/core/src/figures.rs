//! Figures as people read them.

/// A figure with a comma after each thousand.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A figure with its noun: `1 event`, `1,000 events`.
pub fn plural(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// Generations above this are counted from the moment of a restore, not from 0.
pub const RERUNS_N_MAX: u32 = 1_000_000;

/// How often an event was run again. After a restore its generation no longer says that.
pub fn reruns(generation: u32) -> String {
    if generation > RERUNS_N_MAX { "since a restore".to_owned() } else { plural(generation.into(), "time") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped_and_one_is_singular() {
        #[track_caller]
        fn check(number: u64, want: &str) {
            assert_eq!(plural(number, "event"), want);
        }
        check(0, "0 events");
        check(1, "1 event");
        check(999, "999 events");
        check(1_000, "1,000 events");
        check(12_345_678, "12,345,678 events");
        assert_eq!(reruns(2), "2 times");
        assert_eq!(reruns(28_000_000), "since a restore");
        assert_eq!(grouped(u64::MAX), "18,446,744,073,709,551,615");
    }
}
