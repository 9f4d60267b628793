// Elements that several views share.

import { landmarkImage, picture } from "./api.js";
import { isRoute } from "./plots.js";

export const $ = (selector) => document.querySelector(selector);

export function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export function number(value, digits = 1) {
  return value === null || value === undefined
    ? "–"
    : value.toLocaleString("en", {
        minimumFractionDigits: digits,
        maximumFractionDigits: digits,
      });
}

// Coordinates of a position; on a route, how far along it.
export function position(coordinates, unit) {
  return `${(isRoute() ? coordinates.slice(0, 1) : coordinates).map((one) => number(one)).join(", ")} ${unit}`;
}

export const percent = (value) => `${number(value)} %`;

// A picture with a caption; `path` is an address on the server, or the URL of a loaded blob.
export function figure(path, title, ...lines) {
  const image = element("img", { alt: title });
  const made = element(
    "figure",
    {},
    image,
    element("figcaption", {}, element("b", {}, ...breakable(title)), ...breakable(lines.join(" · "))),
  );
  if (path === null) image.replaceWith(element("div", { className: "none" }, "no picture"));
  else if (path.startsWith("blob:")) image.src = path;
  else
    picture(path).then(
      ({ url }) => {
        image.src = url;
      },
      (error) => {
        image.replaceWith(element("div", { className: "none" }, error.message));
      },
    );
  return made;
}

// Long ids may wrap after a slash.
function breakable(text) {
  return text.split(/(?<=\/)/).flatMap((part, n) => (n ? [element("wbr"), part] : [part]));
}

export function facts(pairs) {
  const rows = pairs.filter(([, value]) => value !== null);
  return element(
    "dl",
    {},
    ...rows.flatMap(([name, value]) => {
      const text = value instanceof Node ? value : String(value);
      return [element("dt", {}, name), element("dd", {}, text)];
    }),
  );
}

// Whether the map trusts a position, and the reason if it does not.
export function verdict(found) {
  const sure = found.confident;
  return element(
    "p",
    { className: `verdict ${sure ? "good" : "mixed"}` },
    element("b", {}, sure ? "Placed and trusted" : "Placed, not trusted"),
    sure ? null : `: ${found.reason}`,
  );
}

// Landmarks with similar features, without the nearest one, which is already shown.
export function candidates(found) {
  const rest = found.candidates.filter((one) => one.landmark !== found.landmark).slice(0, 4);
  if (!rest.length) return null;
  return element(
    "div",
    {},
    element("h2", { className: "sub" }, "Other candidates"),
    element(
      "div",
      { className: "candidates" },
      ...rest.map((one) =>
        figure(landmarkImage(one.landmark), one.landmark, `feature distance ${number(one.feature_distance, 2)}`),
      ),
    ),
  );
}

export function interval(found) {
  if (found.low === null || found.low === undefined) return null;
  return `${number(found.low)} to ${number(found.high)} ${found.unit}`;
}
