// The map: landmarks, and test images colored by the error of the retrieved landmark; one image in detail.

import { landmarkImage, locate, picture, studyImage } from "./api.js";
import { $, candidates, element, facts, figure, interval, number, options, position, verdict } from "./page.js";
import { color, dots, draw, landmarkColor, mapAxes, ring } from "./plots.js";

const DRAWN_LANDMARKS = 5000; // at most
const PAUSE = 350; // ms that an image is shown before the server locates it again

export function mapView(world) {
  const { map, study } = world;
  let drive = "",
    chosen = null,
    landmark = null,
    asked = null,
    timer = 0;

  const own = () => study.queries.id.map((_, n) => n).filter((n) => !drive || study.queries.drive[n] === drive);

  const rowsOf = () => (study ? own() : map.landmarks.map((one) => one.id));
  const now = () => (study ? chosen : landmark);

  function traces() {
    const made = [landmarkTrace(study ? study.landmarks : columns(map.landmarks))];
    if (study) made.push(...queryTraces(world, own()), ...(chosen === null ? [] : chosenTraces(world, chosen)));
    else made.push(marked(map.landmarks.find((one) => one.id === landmark).coordinates, "map"));
    return made;
  }

  function near() {
    if (!$("#map-close").checked) return null;
    if (!study) {
      const [x, y] = map.landmarks.find((one) => one.id === landmark).coordinates;
      return { x, y, reach: sight(map) };
    }
    const reach = sight(map, world.found.high?.[chosen], world.found.error[chosen]);
    return { x: study.queries.x[chosen], y: study.queries.y[chosen], reach };
  }
  const plot = () =>
    draw($("#map-plot"), () => ({ traces: traces(), layout: mapAxes(map.unit, near()), map: true }));

  function choose(one) {
    (study ? showQuery : showLandmark)(one);
    plot();
  }

  // The slider at an image; a screen reader says the name of the image.
  function at(row, id) {
    Object.assign($("#map-step"), { value: row, ariaValueText: id });
  }

  function showQuery(n) {
    chosen = n;
    const rows = own();
    at(rows.indexOf(n), study.queries.id[n]);
    $("#map-detail").replaceChildren(...queryDetail(world, n, rows));
    clearTimeout(timer);
    asked?.abort();
    timer = setTimeout(() => locateAgain(n), PAUSE);
  }

  async function locateAgain(n) {
    asked = new AbortController();
    const id = study.queries.id[n];
    try {
      const { data } = await picture(studyImage(id));
      const file = new File([data], id, { type: data.type });
      const {
        positions: [found],
      } = await locate([file], { signal: asked.signal });
      if (chosen === n) $("#map-live")?.replaceChildren(...locatedNow(world, n, found));
    } catch (error) {
      if (error.name !== "AbortError" && chosen === n) $("#map-live")?.replaceChildren(error.message);
    }
  }

  function showLandmark(id) {
    landmark = id;
    if (!study) at(rowsOf().indexOf(id), id);
    const { condition, coordinates } = map.landmarks.find((one) => one.id === id) ?? {};
    $("#map-detail").replaceChildren(
      figure(study ? studyImage(id) : landmarkImage(id), id, ...[condition].filter(Boolean)),
      facts([["landmark at", coordinates ? position(coordinates, map.unit) : null]]),
    );
  }

  function step(by) {
    const rows = rowsOf();
    choose(rows[Math.min(Math.max(rows.indexOf(now()) + by, 0), rows.length - 1)]);
  }

  function take(name) {
    drive = name;
    $("#map-step").max = own().length - 1;
    showQuery(own()[0]);
  }

  function clicked({ points: [point] }) {
    const [kind, value] = point.customdata ?? [];
    if (kind === "landmark") showLandmark(value);
    if (kind === "query") showQuery(value);
    plot();
  }

  $("#map-step").oninput = (event) => choose(rowsOf()[event.target.value]);
  $("#map-close").onchange = plot;
  $("#map-back").onclick = () => step(-1);
  $("#map-next").onclick = () => step(1);
  if (study) {
    const drives = [...new Set(study.queries.drive)];
    options($("#drive"), [["", "all"], ...drives.map((one) => [one, one || "unnamed"])], "");
    $("#drive-choice").hidden = false;
    $("#drive").onchange = (event) => {
      take(event.target.value);
      plot();
    };
    take("");
  } else {
    $("#map-step").max = map.landmarks.length - 1;
    showLandmark(map.landmarks[0].id);
  }

  return {
    step,
    changed: () => study && showQuery(chosen),
    show: async () => {
      await plot();
      const plotted = $("#map-plot");
      plotted.removeAllListeners("plotly_click");
      plotted.on("plotly_click", clicked);
    },
  };
}

// How far to zoom out around an image, so that its interval is visible.
export function sight(map, ...metres) {
  return Math.max(4 * map.spacing, 1.4 * Math.max(...metres.map((one) => one ?? 0)));
}

export function columns(landmarks) {
  return {
    id: landmarks.map((one) => one.id),
    x: landmarks.map((one) => one.coordinates[0]),
    y: landmarks.map((one) => one.coordinates[1]),
  };
}

// Draw only some of very many landmarks, because a browser takes seconds for more.
export function landmarkTrace(all) {
  const every = Math.ceil(all.id.length / DRAWN_LANDMARKS);
  const [id, x, y] = [all.id, all.x, all.y].map((values) => values.filter((_, n) => n % every === 0));
  return dots(
    { x, y },
    { symbol: "square-open", size: 7, color: landmarkColor() },
    every > 1 ? `landmarks (1 in ${every})` : "landmarks",
    {
      lane: "map",
      customdata: id.map((one) => ["landmark", one]),
      hovertemplate: "landmark %{customdata[1]}<extra></extra>",
    },
  );
}

function marked([x, y], lane = "images") {
  return {
    x: [x],
    y: [y],
    lane,
    mode: "markers",
    name: "chosen",
    hoverinfo: "skip",
    showlegend: false,
    marker: { symbol: "circle-open", size: 17, color: color("text"), line: { width: 2 } },
  };
}

function queryTraces({ study, found }, rows) {
  const near = study.positive_radius,
    far = study.negative_radius,
    unit = study.unit;
  const kinds = [
    [`within ${near} ${unit}`, "bar", "circle", (error) => error <= near],
    [`within ${far} ${unit}`, "amber", "diamond", (error) => error > near && error <= far],
    ["farther", "red", "x", (error) => error > far],
  ];
  return kinds.map(([name, shade, symbol, holds]) => {
    const some = rows.filter((n) => holds(found.error[n]));
    const places = { x: some.map((n) => study.queries.x[n]), y: some.map((n) => study.queries.y[n]) };
    return dots(places, { color: color(shade, 0.85), symbol, size: 7 }, `${name}: ${some.length}`, {
      customdata: some.map((n) => ["query", n, study.queries.id[n], found.error[n]]),
      hovertemplate: `%{customdata[2]}<br>error %{customdata[3]:.1f} ${unit}<extra></extra>`,
    });
  });
}

function chosenTraces({ study, found }, n) {
  const { queries, landmarks } = study,
    at = found.retrieved[n];
  const x = landmarks.x[at],
    y = landmarks.y[at];
  const traces = found.low?.[n] === null || !found.low ? [] : [ring(x, y, found.low[n], found.high[n], "interval")];
  return [
    ...traces,
    {
      x: [queries.x[n], x],
      y: [queries.y[n], y],
      mode: "lines",
      lane: ["images", "map"],
      hoverinfo: "skip",
      showlegend: false,
      line: { color: color("text"), width: 1.5, dash: "dot" },
    },
    { ...marked([x, y], "map"), marker: { symbol: "square", size: 11, color: color("text") } },
    marked([queries.x[n], queries.y[n]]),
  ];
}

function queryDetail({ study, found }, n, rows) {
  const { queries, landmarks, unit } = study,
    error = found.error[n];
  const stated = { low: found.low?.[n], high: found.high?.[n] };
  const grade = error <= study.positive_radius ? "good" : error <= study.negative_radius ? "mixed" : "bad";
  const holds = stated.low <= error && error <= stated.high;
  const place = landmarks.id[found.retrieved[n]];
  return [
    element("p", { className: "name" }, queries.id[n]),
    element(
      "p",
      { className: "soft small" },
      [queries.condition[n], `image ${rows.indexOf(n) + 1} of ${rows.length}`].filter(Boolean).join(" · "),
    ),
    element(
      "div",
      { className: "two" },
      figure(studyImage(queries.id[n]), "Query", "a test image"),
      figure(studyImage(place), "Retrieved", place),
    ),
    facts([
      ["true distance to the landmark", element("span", { className: grade }, `${number(error)} ${unit}`)],
      ["stated distance", interval(stated, unit) && `${number(found.distance[n])} ${unit}`],
      ["stated interval", interval(stated, unit) && `${interval(stated, unit)}, ${holds ? "correct" : "wrong"}`],
      ["error of the refined position", found.refined?.[n] == null ? null : `${number(found.refined[n])} ${unit}`],
      ["trusted", found.confident && (found.confident[n] ? "yes" : "no")],
    ]),
    element("div", { id: "map-live" }),
  ];
}

function locatedNow({ study, map, found: evaluated }, n, found) {
  if (found.error) return [found.error];
  const { queries } = study;
  const off = Math.hypot(found.coordinates[0] - queries.x[n], found.coordinates[1] - queries.y[n]);
  return [
    element("h2", { className: "sub" }, "Located now by the served map"),
    verdict(found),
    facts([
      ["position", position(found.coordinates, map.unit)],
      ["error", `${number(off)} ${map.unit}`],
    ]),
    candidates(found, study.landmarks.id[evaluated.retrieved[n]]),
  ].filter(Boolean);
}
