// A drive over time: its true path, and the path recovered from distances between its images.

import { studyImage } from "./api.js";
import { $, element, facts, figure, number, options } from "./page.js";
import { color, draw, mapAxes } from "./plots.js";

const IMAGES_PER_SECOND = 12;

export function trajectoryView(world) {
  const { study } = world;
  let at = 0,
    way = 0,
    timer = 0;

  const taken = () => world.found.trajectory;

  function traces() {
    const { truth, ways } = taken(),
      points = ways[way].positions;
    const line = (some, name, shade, others) => ({
      x: some.map(([x]) => x),
      y: some.map(([, y]) => y),
      mode: "lines",
      name,
      hoverinfo: "skip",
      line: { color: color(shade), ...others },
    });
    const [here, there] = [truth[at], points[at]];
    return [
      line(truth, "true", "bar-soft", { width: 6 }),
      { ...line(points, "recovered", "bar", { width: 1, dash: "dot" }), lane: "map" },
      { ...line(points.slice(0, at + 1), "so far", "bar", { width: 2.5 }), lane: "map", showlegend: false },
      { ...line([here, there], "error", "text", { width: 1.5 }), lane: ["images", "map"], showlegend: false },
      {
        x: [here[0], there[0]],
        y: [here[1], there[1]],
        mode: "markers",
        lane: ["images", "map"],
        hoverinfo: "skip",
        showlegend: false,
        marker: {
          size: [13, 11],
          color: [color("bar-soft"), color("bar")],
          line: { width: 2, color: color("text") },
        },
      },
    ];
  }

  function look(n) {
    const { truth, ways, images, drive, length, known } = taken(),
      points = ways[way].positions;
    $("#trajectory-lead").textContent =
      `${truth.length} images of ${drive}, along ${number(length, 0)} ${study.unit}. ` +
      (ways[way].anchored
        ? `The positions of ${known} images are known; the others are recovered from distances between descriptors.`
        : "Distances between descriptors give the shape of the path, but not where it is. Here it is moved, turned and scaled to fit the true path.");
    at = Math.min(Math.max(n, 0), truth.length - 1);
    Object.assign($("#time"), { value: at, ariaValueText: images[at] });
    const errors = points.map(([x, y], k) => Math.hypot(x - truth[k][0], y - truth[k][1]));
    const rms = Math.sqrt(errors.reduce((sum, one) => sum + one * one, 0) / errors.length);
    $("#trajectory-detail").replaceChildren(
      figure(studyImage(images[at]), images[at], `image ${at + 1} of ${truth.length}`),
      facts([
        ["error", `${number(errors[at])} ${study.unit}`],
        ["root mean square error", `${number(rms)} ${study.unit}`],
      ]),
    );
    return draw($("#trajectory-plot"), () => ({ traces: traces(), layout: mapAxes(study.unit, null, ["true", "recovered"]), map: true }));
  }

  function play(on) {
    clearInterval(timer);
    timer = on ? setInterval(() => (at + 1 < taken().truth.length ? look(at + 1) : play(false)), 1000 / IMAGES_PER_SECOND) : 0;
    $("#play").textContent = on ? "❚❚" : "▶";
    $("#play").ariaPressed = String(on);
    $("#play").ariaLabel = on ? "Pause" : "Play";
  }

  $("#time").oninput = (event) => look(Number(event.target.value));
  $("#way").onchange = (event) => {
    way = Number(event.target.value);
    look(at);
  };
  $("#play").onclick = () => {
    if (!timer && at + 1 >= taken().truth.length) at = 0;
    play(!timer);
  };

  return {
    step: (by) => taken() && look(at + by),
    changed: () => play(false),
    show: async () => {
      $("#trajectory .split").hidden = !taken();
      if (!taken()) {
        const others = study.models
          .filter((one) => one.trajectory)
          .map((one) => one.title)
          .join(", ");
        $("#trajectory-lead").textContent =
          `No trajectory was recovered for ${world.model.title}. Choose another model: ${others}.`;
        return;
      }
      const { ways, truth } = taken();
      way = Math.min(way, ways.length - 1);
      options(
        $("#way"),
        ways.map(({ title }, n) => [String(n), title]),
        String(way),
      );
      $("#time").max = truth.length - 1;
      await look(at);
    },
  };
}
