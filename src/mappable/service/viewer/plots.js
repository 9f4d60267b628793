// Plots by Plotly in the colors of the page; they are drawn again when the colors change.

const drawn = new Map();
const touch = matchMedia("(pointer: coarse)");
const probe = document.createElement("span");
probe.hidden = true;
document.body.append(probe);

export function color(name, alpha = 1) {
  probe.style.color = `var(--${name})`;
  const [r, g, b] = getComputedStyle(probe).color.match(/[\d.]+/g);
  return `rgba(${r},${g},${b},${alpha})`;
}

// `make` returns the traces and additions to the layout; it is called again whenever the colors change.
export function draw(element, make) {
  drawn.set(element, make);
  const { traces, layout = {}, zoom = false } = make();
  return Plotly.react(element, traces, merged(base(), layout), {
    responsive: true,
    displaylogo: false,
    scrollZoom: zoom && !touch.matches,
    doubleClick: zoom && "reset",
    displayModeBar: zoom && (touch.matches || "hover"),
    modeBarButtons: [["zoomIn2d", "zoomOut2d", "pan2d", "resetScale2d"]],
  });
}

// Draw visible plots again; hidden plots are drawn when they are shown.
export function redraw() {
  for (const [element, make] of drawn) if (element.offsetParent) draw(element, make);
}

// Axes of a map; `near` is the part to show: its center, and how far it reaches.
export function equalAxes(unit, near = null) {
  const about = (middle) => (near ? { range: [middle - near.reach, middle + near.reach] } : { autorange: true });
  return {
    uirevision: near ? `${near.x} ${near.y}` : "all",
    xaxis: { title: { text: `x (${unit})` }, ...about(near?.x) },
    yaxis: { title: { text: `y (${unit})` }, scaleanchor: "x", ...about(near?.y) },
  };
}

export function ring(x, y, low, high, name) {
  const circle = (r, turn) =>
    Array.from({ length: 73 }, (_, n) => {
      const angle = (turn * n * Math.PI) / 36;
      return [x + r * Math.cos(angle), y + r * Math.sin(angle)];
    });
  const path = [...circle(high, 1), ...circle(Math.max(low, 0), -1)];
  return {
    x: path.map(([at]) => at),
    y: path.map(([, at]) => at),
    mode: "lines",
    fill: "toself",
    name,
    hoverinfo: "skip",
    fillcolor: color("bar", 0.22),
    line: { width: 0 },
  };
}

export function dots(places, marker, name, others = {}) {
  return { x: places.x, y: places.y, mode: "markers", type: "scatter", name, marker, ...others };
}

function base() {
  const narrow = innerWidth < 560;
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
      font: { size: narrow ? 11 : 12 },
      entrywidth: narrow ? 92 : 0, // gives two columns
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
