//! The page in a real browser: no error, no request, working controls, keyboard, contrast, phone
//! and print.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says what it lacks"
)]

#[path = "support/browser.rs"]
mod browser;
#[path = "support/sample.rs"]
mod sample;

use browser::Browser;
use gemelo_page::Report;
use serde_json::json;
use std::path::{Path, PathBuf};

const CHECKS: &str = include_str!("support/checks.js");
/// Width of a phone and of a window, in pixels.
const PHONE: u32 = 390;
const WINDOW: u32 = 1280;

/// Writes a campaign of 100 runs and its page, and returns the path of the page.
fn campaign(directory: &Path) -> PathBuf {
    sample::write_campaign(directory, 5);
    let page = Report::of_campaign(directory).unwrap().page().unwrap();
    let path = directory.join(gemelo_page::PAGE_FILE);
    std::fs::write(&path, page).unwrap();
    path
}

#[test]
fn the_page_has_no_error_makes_no_request_and_passes_the_checks() {
    let directory = tempfile::tempdir().unwrap();
    let page = campaign(directory.path());
    let Some(mut browser) = Browser::start() else { return };
    for width in [PHONE, WINDOW] {
        for theme in ["light", "dark"] {
            browser.emulate("screen", theme);
            browser.open(&page, width, 900);
            assert_eq!(browser.requests.len(), 1, "{:?}", browser.requests);
            let complaints = browser.evaluate(CHECKS);
            assert_eq!(complaints, json!([]), "{theme} at {width}");
            let reach = browser.evaluate("document.documentElement.scrollWidth");
            assert_eq!(reach, json!(width), "the page is wider than the screen");
        }
    }
    // Text of others is no part of the page: the plan and a description contain tags.
    assert_eq!(browser.evaluate("document.scripts.length"), json!(1));
    assert_eq!(browser.evaluate("document.querySelectorAll('main b').length"), json!(0));
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[test]
fn every_link_leads_to_a_file_of_the_campaign() {
    let directory = tempfile::tempdir().unwrap();
    let page = campaign(directory.path());
    for file in Report::of_campaign(directory.path()).unwrap().files().unwrap() {
        let path = directory.path().join(&file.path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, file.bytes).unwrap();
    }
    let Some(mut browser) = Browser::start() else { return };
    browser.open(&page, WINDOW, 900);
    let links = browser.evaluate(
        "[...document.querySelectorAll('a[href]')].map(a => a.getAttribute('href'))
            .filter(href => !href.startsWith('#'))",
    );
    let links: Vec<&str> = links.as_array().unwrap().iter().map(|l| l.as_str().unwrap()).collect();
    assert!(links.len() > 200, "{} links", links.len());
    for link in links {
        assert!(directory.path().join(link).is_file(), "{link}");
    }
}

/// Clicks each link of the menu, waits until the page has stopped moving, and looks how far the
/// heading is from the top of the screen.
const CLICKED: &str = "(async () => {
    const missed = [];
    // Where nothing has to move, nothing begins and nothing ends.
    const settled = async (act) => {
        let moves = false;
        const ended = new Promise(done => addEventListener('scrollend', done, { once: true }));
        addEventListener('scroll', () => { moves = true; }, { once: true });
        act();
        for (let frame = 0; frame < 60 && !moves; frame++) await new Promise(requestAnimationFrame);
        if (moves) await Promise.race([ended, new Promise(done => setTimeout(done, 10000))]);
    };
    for (const link of document.querySelectorAll('nav a')) {
        if (scrollY > 0) await settled(() => scrollTo({ top: 0, behavior: 'instant' }));
        await settled(() => link.click());
        const part = document.querySelector(link.getAttribute('href'));
        const end = document.documentElement.scrollHeight - innerHeight;
        const top = part.getBoundingClientRect().top;
        // The last parts cannot reach the top: the page ends.
        if ((top < -2 || top > 150) && scrollY < end - 2) missed.push([link.href, top]);
    }
    return missed;
})()";

/// Smooth scrolling goes to the place that a part had when the link was clicked. Parts that were
/// laid out only when they were reached moved it by thousands of pixels.
#[test]
fn links_of_the_menu_lead_to_their_part_with_motion_on() {
    let directory = tempfile::tempdir().unwrap();
    let page = campaign(directory.path());
    let Some(mut browser) = Browser::start() else { return };
    browser.emulate("screen", "light");
    for width in [WINDOW, PHONE] {
        browser.open(&page, width, 900);
        browser.evaluate("document.querySelectorAll('nav details').forEach(d => d.open = true)");
        assert!(browser.evaluate("document.querySelectorAll('nav a').length").as_u64() > Some(5));
        assert_eq!(browser.evaluate(CLICKED), json!([]), "width {width}");
    }
}

#[test]
fn the_controls_work() {
    let directory = tempfile::tempdir().unwrap();
    let page = campaign(directory.path());
    let Some(mut browser) = Browser::start() else { return };
    browser.emulate("screen", "light");
    browser.open(&page, WINDOW, 900);
    let count = |browser: &mut Browser, of: &str| {
        let visible = format!(
            "[...document.querySelectorAll('{of}')].filter(e => e.checkVisibility()).length"
        );
        browser.evaluate(&visible).as_u64().unwrap()
    };
    let click = |browser: &mut Browser, of: &str| {
        browser.evaluate(&format!("document.querySelector('{of}').click()"));
    };
    // A target that is hidden disappears from tables and from drawings.
    let columns = "#overview td[data-t=\"1\"]";
    let drawn = "#overview svg [fill=\"#B04A00\"]";
    assert!(count(&mut browser, columns) == 5 && count(&mut browser, drawn) >= 5);
    click(&mut browser, "[data-hides=\"1\"]");
    assert_eq!((count(&mut browser, columns), count(&mut browser, drawn)), (0, 0));
    click(&mut browser, "[data-hides=\"1\"]");
    assert!(count(&mut browser, columns) == 5 && count(&mut browser, drawn) >= 5);
    // Latencies have a logarithmic axis until the reader wants a linear one.
    assert_eq!(count(&mut browser, "svg.linear"), 0);
    let all = count(&mut browser, "svg.drawn");
    click(&mut browser, "#scale");
    assert_eq!(count(&mut browser, "svg.linear"), 5);
    assert_eq!(count(&mut browser, "svg.drawn"), all - 5);
    // The tables of all pictures open and close together.
    assert_eq!(count(&mut browser, "figure table"), 0);
    click(&mut browser, "#tables");
    assert_eq!(count(&mut browser, "figure table"), all);
    click(&mut browser, "#tables");
    assert_eq!(count(&mut browser, "figure table"), 0);
    // The reader's choice of colours wins over the system's, and the page remembers it.
    let paper = "getComputedStyle(document.body).backgroundColor";
    let choose = "{ const theme = document.querySelector('#theme'); theme.value = 'dark';
        theme.dispatchEvent(new Event('change')); }";
    assert_eq!(browser.evaluate(paper), json!("rgb(255, 255, 255)"));
    browser.evaluate(choose);
    assert_eq!(browser.evaluate(paper), json!("rgb(20, 23, 28)"));
    browser.open(&page, WINDOW, 900);
    assert_eq!(browser.evaluate(paper), json!("rgb(20, 23, 28)"));
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[test]
fn the_keyboard_reaches_everything_in_the_order_of_the_page() {
    let directory = tempfile::tempdir().unwrap();
    let page = campaign(directory.path());
    let Some(mut browser) = Browser::start() else { return };
    browser.open(&page, WINDOW, 900);
    let order = "[...document.querySelectorAll('a[href], input, select, summary, [tabindex]')]
        .filter(e => e.checkVisibility()).slice(0, 40)
        .map(e => e.outerHTML.slice(0, 80))";
    let expected = browser.evaluate(order);
    for place in expected.as_array().unwrap() {
        browser.press_tab();
        let focused = browser.evaluate("document.activeElement.outerHTML.slice(0, 80)");
        assert_eq!(focused, *place);
        let outline = browser.evaluate("getComputedStyle(document.activeElement).outlineStyle");
        assert_eq!(outline, json!("solid"), "the focus on {place} is not seen");
    }
}

#[test]
fn the_page_prints_on_light_paper_without_controls() {
    let directory = tempfile::tempdir().unwrap();
    let page = campaign(directory.path());
    let Some(mut browser) = Browser::start() else { return };
    browser.open(&page, WINDOW, 900);
    let pdf = browser.print();
    assert!(pdf.starts_with(b"%PDF-"));
    let pages = pdf.windows(12).filter(|bytes| bytes.starts_with(b"/Type /Page\n")).count();
    assert!((5..60).contains(&pages), "{pages} pages");
    browser.emulate("print", "dark");
    let hidden = "!document.querySelector('.controls').checkVisibility()
        && !document.querySelector('nav').checkVisibility()";
    assert_eq!(browser.evaluate(hidden), json!(true));
    let paper = "getComputedStyle(document.body).backgroundColor";
    assert_eq!(browser.evaluate(paper), json!("rgb(255, 255, 255)"));
}

#[test]
fn the_page_of_100_runs_is_small() {
    let directory = tempfile::tempdir().unwrap();
    let page = campaign(directory.path());
    assert!(std::fs::metadata(&page).unwrap().len() < 1_000_000);
    let Some(mut browser) = Browser::start() else { return };
    browser.open(&page, WINDOW, 900);
    // Counts stand for the time to lay the page out, which depends on the machine.
    let elements = browser.evaluate("document.querySelectorAll('*').length").as_u64().unwrap();
    assert!(elements < 20_000, "{elements} elements");
}

#[test]
fn screenshots_are_made_for_the_eye() {
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let directory = tempfile::tempdir().unwrap();
    let page = campaign(directory.path());
    let Some(mut browser) = Browser::start() else { return };
    for (name, width, height) in [("phone", PHONE, 844), ("window", WINDOW, 900)] {
        for theme in ["light", "dark"] {
            browser.emulate("screen", theme);
            browser.open(&page, width, height);
            let picture = browser.screenshot();
            // A blank page is a few kB.
            assert!(picture.len() > 30_000);
            std::fs::write(kept.join(format!("report-{name}-{theme}.png")), picture).unwrap();
        }
    }
}
