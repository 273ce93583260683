//! The table of figures: name, measured, goal, ok or MISSED.

use std::fmt;

/// The figures, in the order measured.
#[derive(Default)]
pub struct Table(Vec<Row>);

struct Row {
    name: String,
    measured: String,
    goal: String,
    /// None where there is no goal.
    reached: Option<bool>,
}

impl Table {
    /// A figure that should be at most `goal`.
    pub fn at_most(&mut self, name: impl Into<String>, measured: f64, goal: f64, unit: &str) {
        self.push(name, figure(measured, unit), format!("<= {}", figure(goal, unit)), Some(measured <= goal));
    }

    /// A ratio that should differ from 1 by at most `within`.
    pub fn near_one(&mut self, name: impl Into<String>, measured: f64, within: f64) {
        let goal = format!("1 +- {within}");
        self.push(name, figure(measured, ""), goal, Some((measured - 1.0).abs() <= within));
    }

    /// A figure without a goal.
    pub fn for_information(&mut self, name: impl Into<String>, measured: f64, unit: &str) {
        self.push(name, figure(measured, unit), "-".into(), None);
    }

    /// Whether any goal was missed.
    pub fn missed(&self) -> bool {
        self.0.iter().any(|row| row.reached == Some(false))
    }

    fn push(&mut self, name: impl Into<String>, measured: String, goal: String, reached: Option<bool>) {
        self.0.push(Row { name: name.into(), measured, goal, reached });
    }
}

fn figure(value: f64, unit: &str) -> String {
    let digits = if value.abs() < 10.0 { 3 } else { 1 };
    format!("{value:.digits$} {unit}").trim_end().to_owned()
}

impl fmt::Display for Table {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for row in &self.0 {
            let word = row.reached.map_or("", |reached| if reached { "ok" } else { "MISSED" });
            let line = format!("{:<58} {:>11}  {:<13} {word}", row.name, row.measured, row.goal);
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// The median; of an even count the higher of the two in the middle. 0 of nothing.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}
