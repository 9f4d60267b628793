// The user's own images: where they were taken, and how reliable that is.

import { landmarkImage, locate } from "./api.js";
import { $, candidates, element, facts, figure, interval, number, position, verdict } from "./page.js";
import { columns, landmarkTrace, sight } from "./map.js";
import { color, draw, mapAxes, ring } from "./plots.js";

const SPREAD = Math.sqrt(4.605); // standard deviations: the radius that contains 90 % of a normal distribution in 2-D

export function dropView(world, come) {
  const { map, page } = world;
  const landmarks = columns(map.places);
  let images = [],
    chosen = 0;

  async function take(files) {
    const some = [...files].filter((file) => file.type.startsWith("image/"));
    if (!some.length) return say(files.length ? "This file is not an image. Choose a JPEG, PNG or WebP file." : "", true);
    await come();
    if (!page.encoder) return;
    say(some.length > 1 ? `Locating ${some.length} images …` : "Locating the image …");
    for (const { url } of images) URL.revokeObjectURL(url);
    try {
      const { positions } = await locate(some, { sequence: $("#sequence").checked });
      images = positions.map((found, n) => ({ found, url: URL.createObjectURL(some[n]) }));
      const placed = positions.filter((one) => !one.error),
        trusted = placed.filter((one) => one.confident);
      say(some.length > 1 ? `${placed.length} of ${some.length} images are placed, ${trusted.length} of them trusted.` : "");
      look(0);
    } catch (error) {
      images = [];
      look(0);
      say(error.message, true);
    }
  }

  function say(text, bad = false) {
    $("#drop-state").textContent = text;
    $("#drop-state").classList.toggle("bad", bad);
  }

  function look(n) {
    const focused = $("#drop-strip").contains(document.activeElement);
    chosen = n;
    $("#drop-strip").replaceChildren(...(images.length > 1 ? images.map(thumbnail) : []));
    const button = $("#drop-strip [aria-selected=true]");
    button?.scrollIntoView({ block: "nearest", inline: "nearest" });
    if (focused) button?.focus();
    $("#drop-detail").replaceChildren(...(images[n] ? detail(images[n]) : [hint()]));
    plot();
  }

  function thumbnail({ found, url }, n) {
    const button = element(
      "button",
      {
        type: "button",
        role: "option",
        className: found.error ? "bad" : found.confident ? "" : "mixed",
        ariaSelected: String(n === chosen),
        tabIndex: n === chosen ? 0 : -1,
        title: `${found.image}${found.error ? ", not placed" : found.confident ? "" : ", not trusted"}`,
      },
      element("img", { src: url, alt: found.image }),
    );
    button.onclick = () => look(n);
    return button;
  }

  function traces() {
    const made = [landmarkTrace(landmarks)];
    const good = images.filter(({ found }) => !found.error);
    if (good.length > 1) {
      made.push({
        x: good.map(({ found }) => found.coordinates[0]),
        y: good.map(({ found }) => found.coordinates[1]),
        mode: "lines+markers",
        name: "images",
        text: good.map(({ found }) => found.image),
        hovertemplate: "%{text}<extra></extra>",
        line: { color: color("bar", 0.6), width: 1.5 },
        marker: { size: 7, color: color("bar") },
      });
    }
    const found = images[chosen]?.found;
    return found && !found.error ? [...made, ...placed(found, landmarks)] : made;
  }

  function near() {
    const found = images[chosen]?.found;
    if (!$("#drop-close").checked || !found?.coordinates) return null;
    return { x: found.coordinates[0], y: found.coordinates[1], reach: sight(map, found.high) };
  }

  const plot = () =>
    draw($("#drop-plot"), () => ({ traces: traces(), layout: mapAxes(map.unit, near()), map: true }));

  listen(take);
  $("#zone").hidden = !page.encoder;
  if (!page.encoder)
    say("This map has no encoder, so it cannot locate images. Build it again with --encoder, or send descriptors: see HTTP interface.", true);
  $("#drop-close").onchange = plot;
  $("#drop-detail").replaceChildren(...(page.encoder ? [hint()] : []));
  return {
    step: (by) => images.length && look(Math.min(Math.max(chosen + by, 0), images.length - 1)),
    show: plot,
  };
}

function listen(take) {
  for (const input of [$("#files"), $("#camera")]) {
    input.addEventListener("change", () => {
      take(input.files);
      input.value = "";
    });
  }
  const zone = $("#zone");
  document.addEventListener("dragover", (event) => {
    event.preventDefault();
    zone.classList.add("over");
  });
  document.addEventListener("dragleave", () => zone.classList.remove("over"));
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    zone.classList.remove("over");
    take(event.dataTransfer.files);
  });
  document.addEventListener("paste", (event) => event.clipboardData.files.length && take(event.clipboardData.files));
}

function hint() {
  return element(
    "p",
    { className: "soft" },
    "This server compares your image with the landmarks. It does not store the image.",
  );
}

function placed(found, landmarks) {
  const [x, y] = found.coordinates,
    at = landmarks.id.indexOf(found.landmark);
  const made = found.low === null ? [] : [ring(landmarks.x[at], landmarks.y[at], found.low, found.high, "interval")];
  if (found.covariance) made.push(ellipse(x, y, found.covariance));
  return [
    ...made,
    {
      x: [landmarks.x[at]],
      y: [landmarks.y[at]],
      lane: "map",
      mode: "markers",
      name: "nearest",
      hoverinfo: "skip",
      marker: { symbol: "square", size: 11, color: color("text") },
    },
    {
      x: [x],
      y: [y],
      mode: "markers",
      name: "your image",
      hovertemplate: `${number(x)}, ${number(y)}<extra></extra>`,
      marker: {
        symbol: "star",
        size: 17,
        color: color(found.confident ? "bar" : "amber"),
        line: { width: 1, color: color("card") },
      },
    },
  ];
}

function ellipse(x, y, [[a, b], [, d]]) {
  const mean = (a + d) / 2,
    root = Math.hypot((a - d) / 2, b),
    turn = Math.atan2(2 * b, a - d) / 2;
  const [long, short] = [mean + root, Math.max(mean - root, 0)].map((one) => SPREAD * Math.sqrt(one));
  const angles = Array.from({ length: 61 }, (_, n) => (n * Math.PI) / 30);
  const along = (t, by) => long * Math.cos(t) * Math.cos(turn - by) - short * Math.sin(t) * Math.sin(turn - by);
  return {
    x: angles.map((t) => x + along(t, 0)),
    y: angles.map((t) => y + along(t, Math.PI / 2)),
    mode: "lines",
    name: "position, 90 %",
    hoverinfo: "skip",
    line: { color: color("text"), width: 1, dash: "dot" },
  };
}

function detail({ found, url }) {
  if (found.error) return [figure(url, found.image), element("p", { className: "verdict bad" }, found.error)];
  return [
    element(
      "div",
      { className: "two" },
      figure(url, "Your image", found.image),
      figure(landmarkImage(found.landmark), "Nearest landmark", found.landmark),
    ),
    verdict(found),
    facts([
      [
        "position",
        element("span", { id: "position" }, position(found.coordinates, found.unit)),
      ],
      [
        "latitude, longitude",
        found.latitude === null ? null : `${found.latitude.toFixed(6)}, ${found.longitude.toFixed(6)}`,
      ],
      ["distance to the landmark", found.distance === null ? null : `${number(found.distance)} ${found.unit}`],
      [found.coverage === null ? "interval" : `${number(100 * found.coverage, 0)} % interval`, interval(found)],
      ["feature distance", number(found.feature_distance, 3)],
      ["refined between landmarks", found.refined ? "yes" : "no, at the nearest landmark"],
    ]),
    candidates(found),
  ].filter(Boolean);
}
