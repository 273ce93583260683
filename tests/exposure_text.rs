//! What `fsprobe exposure` shows, from made offsets: golden files, the width, and hostile words.

use expect_test::expect_file;
use fsprobe::judge::exposure::conclude;
use fsprobe::render::exposure::{html, text};
use fsprobe::render::terminal::Style;
use fsprobe::report::{
    BandsAt, BandsFrom, Exposure, HeapState, Host, MetBand, MetBands, Placed, SkippedPlacement, State,
    Subject, Way,
};

const LENS: [u64; 5] = [4096, 65536, 1_000_000, 1 << 20, 64 << 20];

/// Numbers that look random and are the same every time.
struct Dice(u32);

impl Dice {
    fn throw(&mut self, sides: u16) -> u16 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        ((self.0 >> 16) % u32::from(sides)) as u16
    }
}

/// An offset as the allocator gives it.
fn offset(dice: &mut Dice, allocator: &str, len: u64, way: Way, state: HeapState, index: usize) -> u16 {
    let creeping = (0x2a0 + 0x10 * index % 4096) as u16 % 4096;
    match (way, allocator) {
        (Way::Memalign4096, _) => 0,
        (Way::Memalign64, "glibc") => 0x040,
        (_, "glibc") if len > 32 << 20 || (len >= 128 << 10 && state == HeapState::First) => 0x010,
        (_, "glibc") => creeping,
        (_, "jemalloc") if len > 14336 => 64 * dice.throw(64),
        (_, "jemalloc" | "mimalloc") => 0,
        // something that does meet the band
        _ => dice.throw(32),
    }
}

fn made(bands: MetBands) -> Exposure {
    let names = ["glibc", "jemalloc", "mimalloc", "libodd.so"];
    let mut dice = Dice(7);
    let mut placements = Vec::new();
    for (allocator, way) in names.iter().flat_map(|name| Way::ALL.iter().map(move |way| (*name, *way))) {
        for (state, len) in HeapState::ALL.iter().flat_map(|state| LENS.iter().map(move |len| (*state, *len)))
        {
            let count = match way {
                Way::Malloc => 100,
                Way::Vec if len > 32 << 20 => 1,
                _ => 20,
            };
            for process in 0..4 {
                let offsets =
                    (0..count).map(|index| offset(&mut dice, allocator, len, way, state, index)).collect();
                placements.push(Placed { allocator: allocator.into(), len, way, state, process, offsets });
            }
        }
    }
    let subject = |name: &str| Subject { name: name.into(), preloaded: name.ends_with(".so") };
    let mut exposure = Exposure {
        processes: 4,
        subjects: names.map(subject).to_vec(),
        bands,
        placements,
        skipped: vec![SkippedPlacement {
            allocator: "libodd.so".into(),
            way: Some(Way::Calloc),
            reason: "it replaces malloc, but not calloc".into(),
        }],
        notes: vec!["only 100 MiB of memory are left: fewer buffers of each length were held".into()],
        summaries: vec![],
        rows: vec![],
        published: vec![],
    };
    conclude(&mut exposure);
    exposure
}

fn zen4() -> MetBands {
    let at =
        |len, slowdown| BandsAt { len, bands: vec![MetBand { from: 1, to: 15, slowdown: Some(slowdown) }] };
    MetBands {
        from: BandsFrom::Simulated,
        source: "the model zen4, read at 64 KiB, 64 MiB".into(),
        state: Some(State::Affected),
        lens: vec![at(65536, 7.2), at(64 << 20, 2.4)],
    }
}

fn clean() -> MetBands {
    MetBands {
        from: BandsFrom::Check,
        source: "a quick check just now, read at 64 KiB".into(),
        state: Some(State::Clean),
        lens: vec![BandsAt { len: 65536, bands: vec![] }],
    }
}

fn host() -> Host {
    fsprobe::simulate::host_of("zen4")
}

/// The page by this build, without its version.
fn page(exposure: &Exposure) -> String {
    let page = html(exposure, &host(), "2026-11-30T10:00:00Z");
    let (before, footer) = page.split_once("<footer>").expect("a footer");
    assert!(footer.contains("Recorded by fsprobe "));
    before.into()
}

#[test]
fn golden_text_and_page() {
    let style = Style::default();
    expect_file!["golden/exposure-zen4.txt"].assert_eq(&text(&made(zen4()), style));
    expect_file!["golden/exposure-clean.txt"].assert_eq(&text(&made(clean()), style));
    expect_file!["golden/exposure-zen4.html"].assert_eq(&page(&made(zen4())));
}

#[test]
fn lines_fit_and_colour_only_repeats() {
    for bands in [zen4(), clean()] {
        let exposure = made(bands);
        let plain = text(&exposure, Style::default());
        assert!(plain.lines().all(|line| line.chars().count() <= 80), "{plain}");
        let mut coloured = text(&exposure, Style { colour: true, ..Style::default() });
        for code in ["\u{1b}[1m", "\u{1b}[1;31m", "\u{1b}[0m"] {
            coloured = coloured.replace(code, "");
        }
        assert_eq!(coloured, plain);
    }
}

#[test]
fn bands_that_are_not_known_are_told_so() {
    let unknown = MetBands { state: Some(State::Inconclusive), lens: vec![], ..clean() };
    let shown = text(&made(unknown), Style::default());
    assert!(shown.contains("is not known") && shown.contains('·') && !shown.contains("1.00x  "), "{shown}");
    let given = MetBands {
        from: BandsFrom::Given,
        source: "given by --band".into(),
        state: None,
        lens: vec![BandsAt { len: 0, bands: vec![MetBand { from: 0xff0, to: 0x00f, slowdown: None }] }],
    };
    let shown = text(&made(given), Style::default());
    assert!(shown.contains("Band: 0xff0-0x00f, given by --band."), "{shown}");
    assert!(shown.contains("INSIDE the band"), "{shown}");
}

#[test]
fn nothing_steers_a_terminal_or_becomes_markup() {
    let evil = "</style><script>alert(1)</script>\u{1b}[2J\u{202e}\0\r\n.so";
    let mut exposure = made(zen4());
    exposure.subjects[3].name = evil.into();
    exposure
        .placements
        .iter_mut()
        .filter(|p| p.allocator == "libodd.so")
        .for_each(|p| p.allocator = evil.into());
    exposure.bands.source = evil.into();
    exposure.notes = vec![evil.into()];
    exposure.skipped[0].reason = evil.into();
    exposure.skipped[0].allocator = evil.into();
    conclude(&mut exposure);
    let shown = text(&exposure, Style::default());
    assert!(shown.chars().all(|c| c == '\n' || !c.is_control()) && !shown.contains('\u{202e}'), "{shown:?}");
    let page = page(&exposure);
    assert!(!page.contains("<script") && page.matches("</style>").count() == 1);
    assert!(page.chars().all(|c| c == '\n' || !c.is_control()) && !page.contains('\u{202e}'));
}

#[test]
fn an_exposure_without_placements_is_no_panic() {
    let mut exposure = made(clean());
    exposure.placements.clear();
    conclude(&mut exposure);
    assert!(text(&exposure, Style::default()).contains("0 fresh allocations in 0\nprocesses"));
    assert!(page(&exposure).contains("</main>"));
    let json = serde_json::to_string(&exposure).unwrap();
    assert_eq!(serde_json::from_str::<Exposure>(&json).unwrap(), exposure);
}
