// A camera that is followed live: the cloud of places where it may be, its path, and its pose as soon as it is trusted.

import { ask, json } from "./api.js";
import { columns, landmarkTrace } from "./map.js";
import { $, element, facts, number, position } from "./page.js";
import { color, dots, draw, isRoute, mapAxes } from "./plots.js";

const PATH = 500; // trusted positions that are drawn
const HELD = Math.sqrt(5.991); // deviations of an ellipse that holds 95 %
const PAUSE = 1000; // ms before the page asks again after an error
const CLOUD = [5, 25]; // size in pixels of a place with probability 0, and what probability 1 adds

export function liveView(world) {
  const { map, page } = world;
  let session = "",
    last = 0,
    now = null,
    path = [],
    stop = null;

  const plot = () => draw($("#live-plot"), () => ({ traces: traces(), layout: mapAxes(map.unit), map: true }));

  function traces() {
    const made = [landmarkTrace(columns(map.places))];
    if (!now) return made;
    const cloud = now.cloud ?? now.places.map((one) => [...one.position.slice(0, 2), one.probability]);
    const size = cloud.map(([, , chance]) => CLOUD[0] + CLOUD[1] * Math.sqrt(chance));
    made.push(
      dots(
        { x: cloud.map(([x]) => x), y: cloud.map(([, y]) => y) },
        { size, color: color("plum", 0.4), line: { width: 0 } },
        "may be here",
        { customdata: cloud.map(([, , chance]) => chance), hovertemplate: "probability %{customdata:.3f}<extra></extra>" },
      ),
      { x: path.map(([x]) => x), y: path.map(([, y]) => y), mode: "lines", name: "path", hoverinfo: "skip", line: { color: color("bar") } },
    );
    if (now.trusted) made.push(...poseTraces(now));
    return made;
  }

  function took(estimate) {
    if (estimate.trusted) path = [...path.slice(1 - PATH), estimate.position];
    else if (now?.trusted) path = [...path.slice(1 - PATH), [null, null]]; // interrupts the line
    now = estimate;
    const judged = verdictOf(estimate);
    if ($("#live-verdict").textContent !== judged.textContent) $("#live-verdict").replaceChildren(judged); // read aloud
    $("#live-facts").replaceChildren(detail(map, estimate, last));
  }

  async function follow(id) {
    stop?.abort();
    const own = (stop = new AbortController());
    [session, last, now, path] = [id, 0, null, []];
    $("#live-id").value = id;
    $("#live-verdict").replaceChildren();
    $("#live-facts").replaceChildren();
    say(`Waiting for images. Send one to this session: ${example(id)}`);
    while (!own.signal.aborted) {
      try {
        const headers = { "Last-Event-ID": String(last) };
        const response = await ask(`sessions/${encodeURIComponent(id)}/events`, { headers, signal: own.signal });
        if (!response.ok) return say((await response.json()).error, true);
        await read(response, own.signal);
      } catch (error) {
        if (error.name === "AbortError") return;
        say(error.message, true);
        await new Promise((resolve) => setTimeout(resolve, PAUSE));
      }
    }
  }

  // Server-Sent Events. The browser's EventSource cannot send the token.
  async function read(response, signal) {
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (let part = await reader.read(); !part.done && !signal.aborted; part = await reader.read()) {
      const events = (text + part.value).split("\n\n");
      text = events.pop();
      for (const event of events) {
        const [, id, data] = event.match(/^id: (\d+)\ndata: (.*)$/s) ?? [];
        if (!id) continue;
        last = Number(id);
        took(JSON.parse(data));
      }
      if (now) say("");
      if (!$("#live").hidden) await plot();
    }
  }

  function say(text, bad = false) {
    $("#live-state").textContent = text;
    $("#live-state").classList.toggle("bad", bad);
  }

  $("#live-form").onsubmit = (event) => {
    event.preventDefault();
    follow($("#live-id").value.trim());
  };
  $("#live-new").onclick = async () => {
    try {
      follow((await json("sessions", { method: "POST" })).id);
    } catch (error) {
      say(error.message, true);
    }
  };
  $("#live-form").hidden = !page.encoder;
  if (!page.encoder) say("This map has no encoder, so it cannot follow a camera. Build it again with --encoder.", true);
  return { show: plot };
}

function example(id) {
  const address = new URL(`sessions/${encodeURIComponent(id)}/update?time=0`, location.href.split("#")[0]);
  const token = sessionStorage.getItem("token") ? ` -H "Authorization: Bearer $TOKEN"` : "";
  return `curl --data-binary @0.jpg -H 'Content-Type: image/jpeg'${token} '${address}'`;
}

function poseTraces({ position: [x, y], covariance: [[a, b], [, d]], heading }) {
  const first = Math.sqrt(a), // the Cholesky factor of the covariance
    below = b / first,
    second = Math.sqrt(Math.max(d - below * below, 0));
  const round = Array.from({ length: 49 }, (_, n) => {
    const [u, v] = [Math.cos((n * Math.PI) / 24), Math.sin((n * Math.PI) / 24)];
    return [x + HELD * first * u, y + HELD * (below * u + second * v)];
  });
  const symbol = heading === null ? "circle" : "arrow";
  const marker = { symbol, size: 14, color: color("good"), angle: heading === null ? 0 : 90 - (heading * 180) / Math.PI };
  return [
    { x: round.map(([at]) => at), y: round.map(([, at]) => at), mode: "lines", name: "95 %", hoverinfo: "skip", line: { color: color("good") } },
    dots({ x: [x], y: [y] }, marker, "camera", { hoverinfo: "skip" }),
  ];
}

function verdictOf({ state, trusted, reason }) {
  return element("p", { className: `verdict ${trusted ? "good" : "mixed"}` }, element("b", {}, state), reason && `: ${reason}`);
}

function detail(map, { trusted, position: at, covariance, heading, heading_deviation: turn, on_map, time }, last) {
  const deviation = Math.sqrt(isRoute() ? covariance[0][0] : (covariance[0][0] + covariance[1][1]) / 2);
  const degrees = (angle) => `${number((angle * 180) / Math.PI, 0)}°`;
  return facts([
    ["image", `${last}, at ${number(time, 2)} s`],
    ["position", trusted ? position(at, map.unit) : null],
    ["standard deviation", trusted ? `${number(deviation, 2)} ${map.unit}` : null],
    ["heading", trusted && heading !== null ? `${degrees(heading)} ± ${degrees(turn)}` : null],
    ["on the map", `${number(100 * on_map)} %`],
  ]);
}
