"""Can everyone use what the page shows? axe-core, and what it does not look at: borders of controls, and the width."""

from playwright.async_api import Page
from tests.support.node import DASHBOARD_PACKAGES

AXE = DASHBOARD_PACKAGES / "node_modules" / "axe-core" / "axe.min.js"


async def faults_of(page: Page, name: str, *, in_dark: bool = False) -> list[str]:
    """Each violation in light and dark, each faint border, and what sticks out.

    What has nothing to do with colours is the same in dark, and is looked at there only where that is asked for.
    """
    faults = []
    for scheme in ("light", "dark"):
        await page.emulate_media(color_scheme=scheme)
        found = await page.evaluate(
            """async (all) => (await axe.run(document, all ? {} : { runOnly: ["color-contrast"] })).violations
              .map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => node.html.slice(0, 200)).join(" | ")}`)
            """,
            scheme == "light" or in_dark,
        )
        faults += [f"{name}, {scheme}: {one}" for one in found]
        faults += [f"{name}, {scheme}: border of {one} is faint" for one in await page.evaluate(FAINT_BORDERS)]
    if not await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"):
        faults.append(f"{name}: something sticks out")
    return faults


FAINT_BORDERS = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => {
    const part = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const ratio = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
  const behind = (element) => {
    for (let at = element.parentElement; at; at = at.parentElement) {
      const colour = rgba(getComputedStyle(at).backgroundColor);
      if (colour[3] > 200) return colour;
    }
    return rgba("Canvas");
  };
  return [...document.querySelectorAll(".btn:not(.quiet), .input, .field")]
    .filter((one) => one.checkVisibility() && !one.disabled && !one.closest(".live, [inert]"))
    .filter((one) => {
      const { borderTopColor, backgroundColor } = getComputedStyle(one);
      return [borderTopColor, backgroundColor].every((colour) => ratio(rgba(colour), behind(one)) < 3);
    })
    .map((one) => one.outerHTML.slice(0, 120));
}"""
