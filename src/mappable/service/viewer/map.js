// The map: all landmarks, and one landmark in detail.

import { landmarkImage } from "./api.js";
import { $, facts, figure, position } from "./page.js";
import { color, dots, draw, mapAxes } from "./plots.js";

const DRAWN_LANDMARKS = 5000; // at most

export function mapView({ map }) {
  const landmarks = map.places;
  let chosen = 0; // row of the landmark in detail

  function plot() {
    const [x, y] = landmarks[chosen].coordinates;
    const near = $("#map-close").checked ? { x, y, reach: sight(map) } : null;
    return draw($("#map-plot"), () => ({
      traces: [landmarkTrace(columns(landmarks)), marked([x, y])],
      layout: mapAxes(map.unit, near),
      map: true,
    }));
  }

  function show(row) {
    chosen = Math.min(Math.max(row, 0), landmarks.length - 1);
    const { id, condition, coordinates } = landmarks[chosen];
    Object.assign($("#map-step"), { value: chosen, ariaValueText: id }); // a screen reader says the name
    $("#map-detail").replaceChildren(
      figure(landmarkImage(id), id, ...[condition].filter(Boolean)),
      facts([["landmark at", position(coordinates, map.unit)]]),
    );
  }

  function choose(row) {
    show(row);
    plot();
  }

  const step = (by) => choose(chosen + by);

  $("#map-step").max = landmarks.length - 1;
  $("#map-step").oninput = (event) => choose(Number(event.target.value));
  $("#map-close").onchange = plot;
  $("#map-back").onclick = () => step(-1);
  $("#map-next").onclick = () => step(1);
  show(0);

  return {
    step,
    show: async () => {
      await plot();
      const plotted = $("#map-plot");
      plotted.removeAllListeners("plotly_click");
      plotted.on("plotly_click", ({ points: [{ customdata }] }) => {
        if (customdata) choose(landmarks.findIndex((landmark) => landmark.id === customdata));
      });
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
    { symbol: "square-open", size: 7, color: color("soft") },
    every > 1 ? `landmarks (1 in ${every})` : "landmarks",
    {
      lane: "map",
      customdata: id,
      hovertemplate: "landmark %{customdata}<extra></extra>",
    },
  );
}

function marked([x, y]) {
  return {
    x: [x],
    y: [y],
    lane: "map",
    mode: "markers",
    name: "chosen",
    hoverinfo: "skip",
    showlegend: false,
    marker: { symbol: "circle-open", size: 17, color: color("text"), line: { width: 2 } },
  };
}
