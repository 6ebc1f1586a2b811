// The operator's own colour, made readable: darker for the light theme and lighter for the dark one, as far as it must be. Pure.

/** Text in this colour, and white or black on it, is read easily (WCAG AA is 4.5). */
const RATIO = 5.5;
const GROUNDS = { light: ["#f5f6f9", 0], dark: ["#1d222d", 255] };

const channels = (hex) => hex.slice(1).match(/../g).map((one) => parseInt(one, 16));
const hexOf = (rgb) => `#${rgb.map((one) => Math.round(one).toString(16).padStart(2, "0")).join("")}`;

function light(rgb) {
  const [r, g, b] = rgb.map((one) => (one / 255 <= 0.03928 ? one / 255 / 12.92 : ((one / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function ratio(a, b) {
  const [dim, bright] = [light(channels(a)), light(channels(b))].sort((x, y) => x - y);
  return (bright + 0.05) / (dim + 0.05);
}

/** *hex* as it is where it can be read on the theme's ground, else mixed with black or white until it can. */
function readable(hex, theme) {
  const [ground, towards] = GROUNDS[theme];
  const wanted = channels(hex);
  for (let share = 0; share < 1; share += 0.05) {
    const mixed = hexOf(wanted.map((one) => one + (towards - one) * share));
    if (ratio(mixed, ground) >= RATIO) return mixed;
  }
  return hexOf([towards, towards, towards]);
}

/** Sets the accent of the whole page. */
export function useAccent(hex) {
  const { style } = document.documentElement;
  style.setProperty("--accent", `light-dark(${readable(hex, "light")}, ${readable(hex, "dark")})`);
  style.setProperty("--accent-soft", "color-mix(in srgb, var(--accent) 10%, var(--panel))");
}
