// Two matrices of distances between the same images; pointing at one matrix also marks the other.

import { json, studyImage } from "./api.js";
import { $, element, figure, number } from "./page.js";
import { color, draw } from "./plots.js";

export function matricesView(world) {
  const { study } = world;
  const plots = { distances: $("#distances-plot"), feature: $("#feature-plot") };
  let data = null,
    loaded = "",
    row = 60,
    column = 90;

  async function load() {
    const { name, matrices } = world.model;
    if (!matrices) {
      const others = study.models.filter((one) => one.matrices).map((one) => one.title);
      return say(`No matrices were computed for ${world.model.title}. Choose another model: ${others.join(", ")}.`);
    }
    if (loaded === name) return true;
    data = await json(`study/matrices/${encodeURIComponent(name)}`);
    for (const kind of ["distances", "feature"]) data[kind].z = unpacked(data[kind], data.shape);
    loaded = name;
    row = Math.min(row, data.shape[0] - 1);
    column = Math.min(column, data.shape[1] - 1);
    say(
      `Rows are images of ${data.reference}, columns are images of ${data.queries}, in order of time. ` +
        `The correlation of the two matrices is ${number(data.pearson, 2)} (Pearson) and ${number(data.spearman, 2)} (Spearman).`,
    );
    return true;
  }

  function say(text) {
    $("#matrices-lead").textContent = text;
    return false;
  }

  const lines = () => [
    { type: "line", xref: "paper", x0: 0, x1: 1, y0: row, y1: row, line: { color: "rgba(255,255,255,.85)", width: 1 } },
    {
      type: "line",
      yref: "paper",
      y0: 0,
      y1: 1,
      x0: column,
      x1: column,
      line: { color: "rgba(255,255,255,.85)", width: 1 },
    },
  ];

  function plot(kind) {
    const title = kind === "distances" ? study.unit : "feature distance";
    return draw(plots[kind], () => ({
      traces: [
        {
          type: "heatmap",
          z: data[kind].z,
          colorscale: "Viridis",
          hoverinfo: "none",
          colorbar: {
            thickness: 10,
            outlinewidth: 0,
            title: { text: title, side: "right", font: { color: color("soft"), size: 12 } },
            tickfont: { color: color("soft") },
          },
        },
      ],
      layout: {
        xaxis: { title: { text: "query" }, showgrid: false },
        shapes: lines(),
        dragmode: false,
        yaxis: { title: { text: "reference" }, autorange: "reversed", showgrid: false },
      },
    }));
  }

  function point(newRow, newColumn) {
    [row, column] = [newRow, newColumn];
    for (const element of Object.values(plots)) Plotly.relayout(element, { shapes: lines() });
    detail();
  }

  function detail() {
    const [reference, query] = [data.rows[row], data.columns[column]];
    $("#matrices-detail").replaceChildren(
      element(
        "p",
        { className: "name" },
        `${number(data.distances.z[row][column])} ${study.unit} apart, ` +
          `feature distance ${number(data.feature.z[row][column], 2)}`,
      ),
      element(
        "div",
        { className: "two narrow" },
        figure(studyImage(reference), "Reference", reference),
        figure(studyImage(query), "Query", query),
      ),
    );
  }

  return {
    step: (by) => data && point(row, Math.min(Math.max(column + by, 0), data.shape[1] - 1)),
    climb: (by) => data && point(Math.min(Math.max(row + by, 0), data.shape[0] - 1), column),
    changed: () => {},
    show: async () => {
      const there = await load();
      for (const one of [...document.querySelectorAll("#matrices .card")]) one.hidden = !there;
      if (!there) return;
      for (const kind of Object.keys(plots)) {
        await plot(kind);
        plots[kind].removeAllListeners("plotly_hover");
        plots[kind].on("plotly_hover", ({ points: [{ x, y }] }) => point(y, x));
      }
      detail();
    },
  };
}

function unpacked({ most, steps }, [height, width]) {
  const bytes = Uint8Array.from(atob(steps), (one) => one.charCodeAt(0));
  return Array.from({ length: height }, (_, n) =>
    Array.from(bytes.subarray(n * width, (n + 1) * width), (one) => (one / 255) * most),
  );
}
