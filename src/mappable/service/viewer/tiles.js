// Map tiles on a canvas below a plot. Corners of tiles are moved to the frame of the map, so tiles fit also if turned.

import { picture } from "./api.js";

const SIDE = 256; // pixels of a tile on the screen, about
const MOST = 80; // tiles at once
const CACHED = 300;
const waiting = new Map();
const loaded = new Map();

// Draw the tiles that a plot shows now; `again` is called when another tile has arrived.
export function drawTiles(tiles, plot, canvas, again) {
  const { xaxis, yaxis } = plot._fullLayout,
    sharp = devicePixelRatio;
  canvas.style.cssText = `left:${plot.offsetLeft}px;top:${plot.offsetTop}px;width:${plot.clientWidth}px;height:${plot.clientHeight}px`;
  canvas.width = plot.clientWidth * sharp;
  canvas.height = plot.clientHeight * sharp;
  const context = canvas.getContext("2d");
  context.beginPath();
  context.rect(xaxis._offset * sharp, yaxis._offset * sharp, xaxis._length * sharp, yaxis._length * sharp);
  context.clip();
  const onScreen = ([x, y]) => [(xaxis._offset + xaxis.l2p(x)) * sharp, (yaxis._offset + yaxis.l2p(y)) * sharp];
  const corners = [0, 1].flatMap((n) => [0, 1].map((m) => share(tiles.grid, [xaxis.range[n], yaxis.range[m]])));
  const [west, east, north, south] = [0, 1].flatMap((axis) => {
    const values = corners.map((one) => one[axis]);
    return [Math.min(...values), Math.max(...values)];
  });
  const [low, high] = tiles.zooms;
  const zoom = Math.min(Math.max(Math.round(Math.log2(xaxis._length / SIDE / (east - west))), low), high);
  const [first, last] = [
    [west, north],
    [east, south],
  ].map((corner) => corner.map((one) => Math.floor(one * 2 ** zoom)));
  if ((last[0] - first[0] + 1) * (last[1] - first[1] + 1) > MOST) return;
  for (let y = Math.max(first[1], 0); y <= Math.min(last[1], 2 ** zoom - 1); y++)
    for (let x = Math.max(first[0], 0); x <= Math.min(last[0], 2 ** zoom - 1); x++) {
      const image = tile(tiles, zoom, x, y, again);
      if (!image) continue;
      const at = (right, below) => onScreen(place(tiles.grid, [(x + right) / 2 ** zoom, (y + below) / 2 ** zoom]));
      const [corner, right, below] = [at(0, 0), at(1, 0), at(0, 1)];
      context.setTransform(
        ...[0, 1].map((n) => (right[n] - corner[n]) / image.naturalWidth),
        ...[0, 1].map((n) => (below[n] - corner[n]) / image.naturalHeight),
        ...corner,
      );
      context.drawImage(image, 0, 0, image.naturalWidth + 0.5, image.naturalHeight + 0.5); // hides seams
    }
}

// The image of a tile if it is there; otherwise it is asked for.
function tile({ address, own }, z, x, y, again) {
  const path = address.replace("{z}", z).replace("{x}", x).replace("{y}", y);
  if (!loaded.has(path) && !waiting.has(path)) {
    waiting.set(path, true);
    image(path, own).then(
      (found) => {
        loaded.set(path, found);
        if (loaded.size > CACHED) loaded.delete(loaded.keys().next().value);
        waiting.delete(path);
        again();
      },
      () => {}, // no such tile: not asked for again
    );
  }
  return loaded.get(path);
}

async function image(path, own) {
  const made = new Image();
  made.referrerPolicy = "origin"; // public servers of tiles ask for it
  if (own) {
    const { data, url } = await picture(path);
    if (!data.size) throw new Error("no such tile");
    made.src = url;
  } else made.src = path;
  await made.decode();
  return made;
}

// Coordinates in the frame of the map, by interpolation in the grid.
function place({ across, down, points }, [u, v]) {
  const [column, right] = within(across, u),
    [row, below] = within(down, v);
  return [0, 1].map(
    (axis) =>
      (1 - below) * ((1 - right) * points[row][column][axis] + right * points[row][column + 1][axis]) +
      below * ((1 - right) * points[row + 1][column][axis] + right * points[row + 1][column + 1][axis]),
  );
}

function within(values, value) {
  const step = (values.at(-1) - values[0]) / (values.length - 1);
  const n = Math.min(Math.max(Math.floor((value - values[0]) / step), 0), values.length - 2);
  return [n, (value - values[0]) / step - n];
}

// The inverse of `place`, by Newton's method with the slopes of the whole grid.
function share(grid, [x, y]) {
  const { across, down, points } = grid,
    width = across.at(-1) - across[0],
    height = down.at(-1) - down[0];
  const [corner, right, below] = [points[0][0], points[0].at(-1), points.at(-1)[0]];
  const [a, c] = [0, 1].map((axis) => (right[axis] - corner[axis]) / width);
  const [b, d] = [0, 1].map((axis) => (below[axis] - corner[axis]) / height);
  let [u, v] = [across[0], down[0]];
  for (let round = 0; round < 4; round++) {
    const now = place(grid, [u, v]),
      [east, north] = [x - now[0], y - now[1]];
    u += (d * east - b * north) / (a * d - b * c);
    v += (a * north - c * east) / (a * d - b * c);
  }
  return [u, v];
}
