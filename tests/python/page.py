"""The page in a real browser: page.py light|dark|act|plain|stale LINK PID [FOLDER]. Exits with 1 and says what is wrong.

FOLDER gets the screenshots of docs/ui.md.
"""

import json
import os
import signal
import sys

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

PATIENCE_MS = 300_000  # As wait::PATIENCE: only a test that fails uses it up.
WIDTHS = [360, 768, 1280, 1600]
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
wrong = []


def check(is_so, said):
    if not is_so:
        wrong.append(said)


class Visit:
    """A browser that has followed the link."""

    def __init__(self, playwright, link):
        self.browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        self.base = link.split("/login")[0]
        context = self.browser.new_context()
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.goto(link)
        page.wait_for_url(self.base + "/")
        self.session = context.storage_state()
        context.close()

    def page(self, **options):
        context = self.browser.new_context(storage_state=self.session, **options)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("console", self.heard)
        page.on("pageerror", lambda error: wrong.append(f"error in the script: {error}"))
        page.on("request", lambda it: check(it.url.startswith(self.base), f"asks {it.url}"))
        return page

    @staticmethod
    def heard(message):
        # A violation of the content security policy is an error, too.
        check(message.type not in ("error", "warning"), f"console: {message.text}")

    def parked(self, page):
        """The parking lot, once it was read."""
        page.goto(self.base + "/parked")
        page.wait_for_selector("table.rows, nav.pages, p.word:has-text('cannot be read')")


def fits(page, what):
    over = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    check(over <= 0, f"{what} is {over} px wider than the window")


def accessible(page, what):
    for found in Axe().run(page).response["violations"]:
        if found["impact"] in ("serious", "critical"):
            nodes = [node["html"][:200] + " " + node["failureSummary"] for node in found["nodes"]]
            wrong.append(f"{what}: {found['id']}: {nodes[:3]}")


def pages(visit, page):
    """Each page, with what it is called."""
    page.goto(visit.base + "/")
    page.wait_for_selector("#badge:text-is('live')")
    yield "overview"
    visit.parked(page)
    yield "parking-lot"
    page.click("table.rows a")
    page.wait_for_selector("#headers")
    yield "message"
    page.click("button[value=replay-selected]")
    page.wait_for_selector("input[name=rate]")
    yield "replay"
    page.go_back()
    page.click("button[value=drop-selected]")
    page.wait_for_selector("input[name=because]")
    yield "drop"
    page.goto(visit.base + "/pauses")
    page.wait_for_selector("form.card")
    yield "pauses"
    for path in ("order?id=late-0", "soon", "health"):
        page.goto(visit.base + "/" + path)
        page.wait_for_selector("section.card")
        yield path.split("?")[0]
    page.goto(visit.base + "/none")
    # It is meant to be there not.
    wrong[:] = [it for it in wrong if "404" not in it]
    yield "refused"


def look(visit, folder, theme):
    shown = {("overview", "light", 1280), ("overview", "dark", 1280), ("parking-lot", "light", 1280)}
    shown |= {("overview", "light", 360)}
    # A theme changes colours, not widths.
    for width in WIDTHS if theme == "light" else [1280]:
        page = visit.page(color_scheme=theme, viewport={"width": width, "height": 800})
        for name in pages(visit, page):
            what = f"{name}, {theme}, {width} px"
            fits(page, what)
            # It takes a second each time, and the widths between have the same elements.
            if width in (WIDTHS[0], 1280):
                accessible(page, what)
            if folder and (name, theme, width) in shown:
                page.screenshot(path=f"{folder}/ui-{name}-{theme}-{width}.png")
        page.context.close()


def focus(page, selector):
    """By the keyboard alone."""
    for _ in range(400):
        page.keyboard.press("Tab")
        if page.evaluate("s => document.activeElement.matches(s)", selector):
            outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            check(outline != "none", f"the focus on {selector} is not seen")
            return
    raise AssertionError(f"the keyboard does not reach {selector}")


def act(visit):
    page = visit.page()
    visit.parked(page)
    focus(page, "input[aria-label='Select late-1']")
    page.keyboard.press("Space")
    page.focus("body")
    page.evaluate("document.activeElement.blur()")
    focus(page, "button[value=replay-selected]")
    page.keyboard.press("Enter")
    page.wait_for_selector("h1:has-text('Replay 1 message?')")
    focus(page, "button[value=replay-selected]")
    page.keyboard.press("Enter")
    page.wait_for_selector("section:has-text('Done:')")
    check("straight to the worker" in page.inner_text("main"), page.inner_text("main"))

    visit.parked(page)
    page.fill("input[name=reason]", "UTF")
    page.click("text=Filter")
    page.wait_for_selector("button:has-text('Drop 1…')")
    page.click("button[value=drop-all]")
    page.wait_for_selector("input[name=because]")
    page.click("button[value=drop-all]")
    # The browser asks for the reason itself.
    check(page.url.endswith("/parked/ask"), "dropped without a reason")
    page.fill("input[name=because]", "a test")
    page.click("button[value=drop-all]")
    page.wait_for_selector("section:has-text('1 message dropped')")

    page.goto(visit.base + "/pauses")
    page.fill("input[name=lasts]", "1h")
    page.fill("input[name=why]", "a test")
    page.click("button[value=pause]")
    page.wait_for_selector("h1:has-text('Pause unpaid?')")
    page.click("button[value=pause]")
    page.wait_for_selector("section:has-text('no worker closes its orders')")
    page.click("button[value=resume]")
    # A second click on the first page would take its request back.
    page.wait_for_selector("h1:has-text('End the pause of unpaid?')")
    page.click("button[value=resume]")
    page.wait_for_selector("p:has-text('Nothing is paused.')")

    # Nothing is behind the back button after the logout.
    page.click("text=Log out")
    page.wait_for_selector("h1:has-text('Log in')")
    page.go_back()
    page.wait_for_load_state()
    check(page.locator("table.rows").count() == 0, "the back button shows the parking lot")
    wrong[:] = [it for it in wrong if "401" not in it]


def plain(visit):
    page = visit.page(java_script_enabled=False)
    page.goto(visit.base + "/")
    check(page.locator("#state strong").count() == 1, "no state")
    check(page.locator("meta[http-equiv=refresh]").count() == 1, "it does not load itself again")
    visit.parked(page)
    page.check("input[aria-label='Select late-0'] >> nth=0")
    page.click("button[value=replay-selected]")
    page.wait_for_selector("h1:has-text('Replay 1 message?')")
    page.click("button[value=replay-selected]")
    page.wait_for_selector("section:has-text('Done:')")


def stale(visit, pid):
    page = visit.page()
    page.goto(visit.base + "/")
    page.wait_for_selector("#badge:text-is('live')")
    os.kill(pid, signal.SIGSTOP)
    page.wait_for_selector("#badge:has-text('stale: ')")
    os.kill(pid, signal.SIGCONT)
    page.wait_for_selector("#badge:text-is('live')")


def main():
    scenario, link, pid, *folder = sys.argv[1:]
    folder = folder[0] if folder else None
    with sync_playwright() as playwright:
        visit = Visit(playwright, link)
        match scenario:
            case "light" | "dark":
                look(visit, folder, scenario)
            case "act":
                act(visit)
            case "plain":
                plain(visit)
            case "stale":
                stale(visit, int(pid))
        visit.browser.close()
    if wrong:
        print(json.dumps(wrong, indent=1, ensure_ascii=False))
        sys.exit(1)


main()
