use super::*;
use crate::report::{BandsFrom, MetBand, Placed, Subject};
use proptest::prelude::*;

const MIB: u64 = 1 << 20;

/// Bands of a check at 64 KiB.
fn bands(state: Option<State>, bands: &[(u16, u16, f64)]) -> MetBands {
    let band =
        |(from, to, slowdown): &(u16, u16, f64)| MetBand { from: *from, to: *to, slowdown: Some(*slowdown) };
    let lens = vec![BandsAt { len: 65536, bands: bands.iter().map(band).collect() }];
    MetBands { from: BandsFrom::Check, source: "a check".into(), state, lens }
}

fn affected() -> MetBands {
    bands(Some(State::Affected), &[(1, 15, 7.0)])
}

fn exposure(placements: Vec<Placed>, bands: MetBands) -> Exposure {
    let mut names: Vec<String> = placements.iter().map(|p| p.allocator.clone()).collect();
    names.dedup();
    let subject = |name| Subject { name, preloaded: false };
    let mut exposure = Exposure {
        processes: 1,
        subjects: names.into_iter().map(subject).collect(),
        bands,
        placements,
        skipped: vec![],
        notes: vec![],
        summaries: vec![],
        rows: vec![],
        published: vec![],
    };
    conclude(&mut exposure);
    exposure
}

fn placed(allocator: &str, len: u64, way: Way, state: HeapState, offsets: Vec<u16>) -> Placed {
    Placed { allocator: allocator.into(), len, way, state, process: 0, offsets }
}

/// Steps of 64, each as often as any other but for what a real one has of chance.
fn random_steps(count: u32) -> Vec<u16> {
    let mut state = 12345u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        ((state >> 20) % 64 * 64) as u16
    };
    (0..count).map(|_| next()).collect()
}

fn of(offsets: &[u16], bands: &MetBands) -> PlacementFigures {
    figures(&[(MIB, offsets)], bands)
}

#[test]
fn one_offset_alone() {
    let figures = of(&[0x010; 240], &affected());
    assert_eq!((figures.pattern, figures.step, figures.least), (Pattern::Always, 4096, 0x010));
    assert_eq!((figures.in_band, figures.slowdown), (Some(0), Some(1.0)));
    assert_eq!(figures.most, [OffsetCount { offset: 0x010, count: 240 }]);
    assert_eq!(of(&[0x010; 3], &affected()).pattern, Pattern::Sparse);
}

#[test]
fn random_steps_are_uniform_and_a_lopsided_spread_is_not() {
    let even = of(&random_steps(400), &affected());
    assert_eq!((even.pattern, even.step, even.least, even.possible()), (Pattern::Uniform, 64, 0, 64));
    assert!(even.even.is_some_and(|even| even.bins == 64 && even.p > 0.001), "{even:?}");
    let mut lopsided = random_steps(400);
    lopsided.iter_mut().step_by(2).for_each(|offset| *offset /= 2 * 64);
    lopsided.iter_mut().for_each(|offset| *offset = *offset / 64 * 64);
    assert_eq!(of(&lopsided, &affected()).pattern, Pattern::Uneven);
    let few = of(&random_steps(100), &affected());
    assert_eq!(few.even.map(|even| even.bins), Some(16), "as many parts as samples allow");
    assert_eq!(of(&random_steps(30), &affected()).pattern, Pattern::Sparse);
    let two = [[0x000, 0x800]; 30].concat();
    assert_eq!(of(&two, &affected()).pattern, Pattern::Few);
}

#[test]
fn slowdowns_are_weighed_by_shares_and_by_length() {
    let offsets = [8, 8, 16, 32];
    let figures = of(&offsets, &affected());
    assert_eq!((figures.in_band, figures.slowdown), (Some(2), Some(4.0)));
    let mut both = affected();
    both.lens.push(BandsAt { len: 64 * MIB, bands: vec![MetBand { from: 1, to: 15, slowdown: Some(2.4) }] });
    let at = |len| super::figures(&[(len, &offsets)], &both).slowdown;
    assert_eq!((at(65536), at(32 * MIB), at(4096)), (Some(4.0), Some(1.7), Some(4.0)));
    let wrapped = of(&[0xfff, 0, 0x10, 0x990], &bands(Some(State::Affected), &[(0x991, 0xf, 2.8)]));
    assert_eq!((wrapped.in_band, wrapped.slowdown), (Some(2), Some(1.9)));
}

#[test]
fn what_is_not_known_stays_so() {
    let unknown = MetBands { lens: vec![], ..bands(Some(State::Inconclusive), &[]) };
    let figures = of(&[8, 8], &unknown);
    assert_eq!((figures.in_band, figures.slowdown), (None, None));
    let clean = of(&[8, 8], &bands(Some(State::Clean), &[]));
    assert_eq!((clean.in_band, clean.slowdown), (Some(0), Some(1.0)));
    let mut given = bands(None, &[(1, 15, 1.0)]);
    given.lens[0].len = 0;
    given.lens[0].bands[0].slowdown = None;
    let given = of(&[8, 16], &given);
    assert_eq!((given.in_band, given.slowdown), (Some(1), None));
}

#[test]
fn rows_take_together_what_is_alike_and_nothing_else() {
    use HeapState::{AfterFrees, First};
    let always = |len, way, state| placed("glibc", len, way, state, vec![0x010; 20]);
    let mut placements = Vec::new();
    for len in [MIB, 2 * MIB, 64 * MIB] {
        placements.push(always(len, Way::Malloc, First));
        placements.push(always(len, Way::Calloc, First));
        placements.push(placed("glibc", len, Way::Memalign4096, First, vec![0; 20]));
    }
    placements.push(placed("glibc", 64 * MIB, Way::Malloc, AfterFrees, vec![0x020; 20]));
    placements.push(placed("glibc", 2 * MIB, Way::Vec, First, vec![0x010; 3]));
    let exposure = exposure(placements, affected());
    let told: Vec<&str> = exposure.rows.iter().map(|row| row.sentence.as_str()).collect();
    assert_eq!(
        told,
        [
            "glibc, 1 MiB to 64 MiB, malloc, calloc and a growing Vec first in a process: always 0x010 (123 of 123); \
             outside the band",
            "glibc, 64 MiB, malloc after frees: always 0x020 (20 of 20); outside the band",
            "glibc, 1 MiB to 64 MiB, posix_memalign to 4096 first in a process: always 0x000 (60 of 60); outside the \
             band",
        ]
    );
    assert_eq!(exposure.rows[0].histogram[0], 123);
    assert_eq!(exposure.rows[0].close_up[0x10], 123);
    assert_eq!(exposure.summaries.len(), 11);
}

#[test]
fn ways_with_unlike_shares_in_the_band_are_told_apart() {
    // steps of 16: malloc's all over the page, a Vec's mostly where the band is
    let malloc: Vec<u16> = (0..384).map(|index| index * 7 % 256 * 16).collect();
    let vec: Vec<u16> = (0..80).map(|index| if index % 5 == 0 { index * 16 } else { 0 }).collect();
    let placements = vec![
        placed("glibc", 100_000, Way::Malloc, HeapState::First, malloc),
        placed("glibc", 100_000, Way::Vec, HeapState::First, vec),
    ];
    let bands = bands(Some(State::Affected), &[(0x000, 0x00f, 7.0)]);
    let mut exposure = exposure(placements, bands);
    conclude(&mut exposure);
    let shares: Vec<f64> = exposure
        .rows
        .iter()
        .map(|row| row.figures.in_band.unwrap() as f64 / row.figures.samples as f64)
        .collect();
    assert!(matches!(shares[..], [few, most] if few < 0.05 && most > 0.75), "{shares:?}");
}
#[test]
fn offsets_inside_are_told_with_what_they_cost() {
    let offsets = [vec![8; 10], vec![16; 30]].concat();
    let inside = exposure(vec![placed("x", 65536, Way::Malloc, HeapState::First, offsets)], affected());
    assert_eq!(
        inside.rows[0].sentence,
        "x, 64 KiB, malloc first in a process: 0x010 (30 of 40) and 0x008 (10 of 40); 10 of 40 (25.0 %) INSIDE the \
         band, reads take 2.50x as long"
    );
    let all = exposure(vec![placed("x", 65536, Way::Malloc, HeapState::First, vec![8; 10])], affected());
    assert!(
        all.rows[0].sentence.ends_with("; INSIDE the band, reads take 7.00x as long"),
        "{}",
        all.rows[0].sentence
    );
}

#[test]
fn the_published_is_compared_and_other_sights_are_told() {
    let first = |name: &str, len, offsets| placed(name, len, Way::Malloc, HeapState::First, offsets);
    let as_published = exposure(
        vec![
            first("glibc", 64 * MIB, vec![0x010; 40]),
            first("jemalloc", MIB, random_steps(400)),
            first("mimalloc", MIB, vec![0; 40]),
        ],
        affected(),
    );
    let holds: Vec<Option<bool>> = as_published.published.iter().map(|p| p.holds).collect();
    assert_eq!(holds, [Some(true); 3]);
    let other = exposure(
        vec![
            first("glibc", 64 * MIB, vec![0x020; 40]),
            first("jemalloc", MIB, vec![0; 400]),
            first("mimalloc", MIB, random_steps(40)),
        ],
        affected(),
    );
    for published in &other.published {
        assert_eq!(published.holds, Some(false));
        assert!(published.sentence.contains("OTHER than published"), "{}", published.sentence);
    }
    assert!(other.published[1].sentence.ends_with("Seen: always 0x000 (400 of 400)"));
    let few = exposure(
        vec![first("glibc", 64 * MIB, vec![0x010; 2]), first("jemalloc", MIB, random_steps(20))],
        affected(),
    );
    assert!(few.published.iter().all(|p| p.holds.is_none()), "{:?}", few.published);
    let short = exposure(vec![first("glibc", MIB, vec![0x010; 40]), first("x", MIB, vec![0; 9])], affected());
    assert!(short.published.is_empty(), "nothing is published of these");
}

proptest! {
    #[test]
    fn any_offsets_are_counted_once(
        groups in prop::collection::vec((0usize..3, 0usize..6, 0usize..2, 1u64..1 << 40, prop::collection::vec(any::<u16>(), 0..80)), 0..12),
        from in 0u16..4096,
        to in 0u16..4096,
        slowdown in 1.0f64..100.0,
    ) {
        let names = ["glibc", "jemalloc", "x"];
        let placements: Vec<Placed> = groups.into_iter().map(|(name, way, state, len, offsets)| {
            placed(names[name], len, Way::ALL[way], HeapState::ALL[state], offsets)
        }).collect();
        let mut whole = exposure(placements, bands(Some(State::Affected), &[(from, to, slowdown)]));
        // a name that comes back later is one subject
        whole.subjects.sort_by(|a, b| a.name.cmp(&b.name));
        whole.subjects.dedup();
        conclude(&mut whole);
        let all: u64 = whole.placements.iter().map(|p| p.offsets.len() as u64).sum();
        prop_assert_eq!(whole.summaries.iter().map(|s| s.figures.samples).sum::<u64>(), all);
        prop_assert_eq!(whole.rows.iter().map(|r| r.figures.samples).sum::<u64>(), all);
        for row in &whole.rows {
            let figures = &row.figures;
            prop_assert_eq!(row.histogram.iter().sum::<u64>(), figures.samples);
            prop_assert!(4096 % figures.step == 0 && figures.least < figures.step);
            prop_assert!(u64::from(figures.distinct) <= figures.samples && figures.distinct <= figures.possible());
            let (inside, cost) = (figures.in_band.unwrap(), figures.slowdown.unwrap());
            prop_assert!(inside <= figures.samples && (1.0 - 1e-9..=slowdown + 1e-9).contains(&cost));
            let expected = 1.0 + (slowdown - 1.0) * inside as f64 / figures.samples as f64;
            prop_assert!((cost - expected).abs() < 1e-6 * slowdown, "{} {}", cost, expected);
            if let Some(even) = figures.even {
                prop_assert!((0.0..=1.0).contains(&even.p) && even.bins.is_power_of_two());
            }
            prop_assert!(!row.sentence.contains('\n'));
        }
    }

    #[test]
    fn every_offset_lies_on_the_steps(offsets in prop::collection::vec(0u16..4096, 1..60)) {
        let figures = of(&offsets, &affected());
        prop_assert!(offsets.iter().all(|o| o % figures.step == figures.least));
        let doubled: Vec<u16> = offsets.iter().map(|o| o / 64 * 64).collect();
        prop_assert!(of(&doubled, &affected()).step >= 64);
    }
}
