//! Sentences that differ in their numbers only, as one.

use std::fmt;

/// A sentence, or several of the same words.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Alike {
    /// What stands around the numbers: one more than there are numbers.
    pub(crate) words: Vec<String>,
    /// The least and the greatest of each number, as they were written.
    numbers: Vec<(Number, Number)>,
}

#[derive(Clone, Debug, PartialEq)]
struct Number {
    value: f64,
    written: String,
}

impl Alike {
    pub(crate) fn of(sentence: &str) -> Self {
        let (mut words, mut numbers) = (vec![String::new()], Vec::new());
        for (index, word) in sentence.split(' ').enumerate() {
            let space = if index > 0 { " " } else { "" };
            // What is no number as a whole, such as an address, is a word.
            let number = word.starts_with(|first: char| first.is_ascii_digit());
            push(&mut words, space);
            if let Some(value) = word.parse::<f64>().ok().filter(|_| number) {
                let number = Number {
                    value,
                    written: word.to_owned(),
                };
                numbers.push((number.clone(), number));
                words.push(String::new());
            } else {
                push(&mut words, word);
            }
        }
        Self { words, numbers }
    }

    /// Widens the numbers to those of `other`, which has the same words.
    pub(crate) fn take(&mut self, other: &Self) {
        for ((least, greatest), (from, to)) in self.numbers.iter_mut().zip(&other.numbers) {
            if from.value < least.value {
                *least = from.clone();
            }
            if to.value > greatest.value {
                *greatest = to.clone();
            }
        }
    }
}

fn push(words: &mut [String], text: &str) {
    if let Some(last) = words.last_mut() {
        last.push_str(text);
    }
}

impl fmt::Display for Alike {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, words) in self.words.iter().enumerate() {
            f.write_str(words)?;
            match self.numbers.get(index) {
                Some((least, greatest)) if least == greatest => f.write_str(&least.written)?,
                Some((least, greatest)) => {
                    write!(f, "{} to {}", least.written, greatest.written)?;
                }
                None => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn together(sentences: &[&str]) -> String {
        let mut all = sentences.iter().map(|sentence| Alike::of(sentence));
        let mut one = all.next().unwrap();
        for other in all {
            assert_eq!(one.words, other.words);
            one.take(&other);
        }
        one.to_string()
    }

    #[test]
    fn numbers_of_the_same_words_become_ranges_and_single_ones_stay_as_written() {
        let said = |missing: u32, bytes: u32| format!("{missing} of {bytes} bytes are missing");
        let said = [said(1738, 8001), said(90, 66054), said(87692, 8001)];
        assert_eq!(
            together(&said.each_ref().map(String::as_str)),
            "90 to 87692 of 8001 to 66054 bytes are missing"
        );
        let odd = "from 10.0.0.1, 1.50 ms in 2  places, 3";
        assert_eq!(together(&[odd, odd]), odd);
    }

    #[test]
    fn other_words_are_other_sentences() {
        let words = |sentence| Alike::of(sentence).words;
        assert_ne!(words("waited 3 ms"), words("waited 3 s"));
        assert_ne!(words("to 10.0.0.1 only"), words("to 10.0.0.2 only"));
    }
}
