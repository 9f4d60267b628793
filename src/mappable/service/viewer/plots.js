// Plots by Plotly in the colors of the page; they are drawn again when the colors change.

const LANES = { images: 0.5, map: -0.5 }; // heights of the rows of a strip
const drawn = new Map();
const touch = matchMedia("(pointer: coarse)");
const probe = document.createElement("span");
let route = false;
probe.hidden = true;
document.body.append(probe);

// A map whose landmarks lie on one line is a route: it is drawn as a strip, and its positions are one number.
export function setGround(map) {
  route = map.high[1] - map.low[1] <= 1e-6 * (map.high[0] - map.low[0]);
}

const isNarrow = () => innerWidth < 560;
export const isRoute = () => route;

export function color(name, alpha = 1) {
  probe.style.color = `var(--${name})`;
  const [r, g, b] = getComputedStyle(probe).color.match(/[\d.]+/g);
  return `rgba(${r},${g},${b},${alpha})`;
}

// `make` returns the traces and additions to the layout; it is called again whenever the colors change. `map` is true
// for traces in coordinates of the map.
export async function draw(element, make) {
  drawn.set(element, make);
  const { traces, layout = {}, map = false } = make();
  const strip = map && route;
  element.classList.toggle("ribbon", strip);
  await Plotly.react(element, strip ? traces.map(inLane) : traces, merged(base(), layout), {
    responsive: true,
    displaylogo: false,
    scrollZoom: map && !touch.matches,
    doubleClick: map && "reset",
    displayModeBar: map && !strip && (touch.matches || "hover"),
    modeBarButtons: [["zoomIn2d", "zoomOut2d", "pan2d", "resetScale2d"]],
  });
  for (const svg of element.querySelectorAll(".main-svg")) svg.ariaHidden = "true"; // the text beside the plot says it
}

// Draw visible plots again; hidden plots are drawn when they are shown.
export function redraw() {
  for (const [element, make] of drawn) if (element.offsetParent) draw(element, make);
}

// Axes of a map; `near` is the part to show: its center, and how far it reaches. `lanes` name the rows of a strip.
export function mapAxes(unit, near = null, lanes = ["images", "landmarks"]) {
  const about = (middle) => (near ? { range: [middle - near.reach, middle + near.reach] } : { autorange: true });
  const uirevision = near ? `${near.x} ${near.y}` : "all";
  if (!route)
    return {
      uirevision,
      margin: isNarrow() ? { r: 26 } : {}, // for the buttons, which phones always show
      xaxis: { title: { text: `x (${unit})` }, ...about(near?.x) },
      yaxis: { title: { text: `y (${unit})` }, scaleanchor: "x", ...about(near?.y) },
    };
  const yaxis = { tickvals: Object.values(LANES), ticktext: lanes, range: [-1.1, 1.1], fixedrange: true, showgrid: false, automargin: true };
  return { uirevision, xaxis: { title: { text: `along the route (${unit})` }, ...about(near?.x) }, yaxis };
}

// The positions that are between `low` and `high` away from a landmark.
export function ring(x, y, low, high, name) {
  const circle = (r, turn) =>
    Array.from({ length: 73 }, (_, n) => {
      const angle = (turn * n * Math.PI) / 36;
      return [x + r * Math.cos(angle), y + r * Math.sin(angle)];
    });
  const inner = Math.max(low, 0);
  const path = route ? bars(x, inner, high) : [...circle(high, 1), ...circle(inner, -1)];
  return {
    x: path.map(([at]) => at),
    y: path.map(([, at]) => at),
    mode: "lines",
    fill: "toself",
    name,
    lane: null,
    hoverinfo: "skip",
    fillcolor: color("bar", 0.22),
    line: { width: 0 },
  };
}

export function dots(places, marker, name, others = {}) {
  return { x: places.x, y: places.y, mode: "markers", type: "scatter", name, marker, ...others };
}

// The interval on both sides of a landmark, in the row of the images.
function bars(x, low, high) {
  const [bottom, top] = [LANES.images - 0.3, LANES.images + 0.3];
  const bar = (from, to) => [[from, bottom], [to, bottom], [to, top], [from, top], [from, bottom]];
  return [...bar(x - high, x - low), [null, null], ...bar(x + low, x + high)];
}

// A trace in a row of the strip: `lane` names the row, or one row per point; null keeps the heights.
function inLane({ lane = "images", ...trace }) {
  if (lane === null) return trace;
  return { ...trace, y: trace.y.map((one, n) => (one === null ? null : LANES[Array.isArray(lane) ? lane[n] : lane])) };
}

function base() {
  const narrow = isNarrow();
  const axis = {
    gridcolor: color("line"),
    zeroline: false,
    linecolor: color("line"),
    ticks: "",
    tickfont: { color: color("soft") },
    title: { font: { color: color("soft"), size: 12 }, standoff: 6 },
  };
  return {
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    margin: { l: narrow ? 46 : 56, r: 8, t: 8, b: 42 },
    font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: color("text") },
    xaxis: axis,
    yaxis: axis,
    dragmode: touch.matches ? false : "pan",
    uirevision: "kept",
    hovermode: "closest",
    legend: {
      orientation: "h",
      y: 1.02,
      yanchor: "bottom",
      x: 0,
      font: { size: narrow ? 10.5 : 12 },
      entrywidth: narrow ? 72 : 0, // gives two columns
    },
    modebar: { orientation: "v", bgcolor: "rgba(0,0,0,0)", color: color("soft"), activecolor: color("accent") },
    hoverlabel: { bgcolor: color("card"), bordercolor: color("line"), font: { color: color("text") } },
  };
}

function merged(one, other) {
  const result = { ...one };
  for (const [key, value] of Object.entries(other)) {
    const both = value && typeof value === "object" && !Array.isArray(value) && result[key];
    result[key] = both ? merged(result[key], value) : value;
  }
  return result;
}
