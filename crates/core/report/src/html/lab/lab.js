'use strict';
// Values under the pointer, or under a line that arrow keys move. Every plot says which pixels stand for
// which values, so a picture's own lines are its data.
(() => {
  const reading = document.createElement('div');
  reading.id = 'reading';
  reading.setAttribute('role', 'status');
  document.body.append(reading);

  const scaled = (value, units) => {
    for (const [size, unit] of units) {
      if (Math.abs(value) >= size) return (value / size).toPrecision(3) + ' ' + unit;
    }
    return value.toPrecision(3) + ' ' + units.at(-1)[1];
  };
  const shown = (value, unit) => {
    if (unit === 's') return scaled(value, [[1, 's'], [1e-3, 'ms'], [1e-6, 'µs']]);
    if (unit === 'B') return scaled(value, [[1e9, 'GB'], [1e6, 'MB'], [1e3, 'kB'], [1, 'B']]);
    if (unit === 'bit/s') return scaled(value, [[1e9, 'Gbit/s'], [1e6, 'Mbit/s'], [1e3, 'kbit/s'], [1, 'bit/s']]);
    return (value * 100).toFixed(0) + ' %';
  };
  const plain = (node, text) => { node.textContent = text; return node; };

  // The points of a line: commands are M, L, H and V with absolute numbers.
  const pointsOf = (path) => {
    const points = [];
    let x = 0, y = 0;
    for (const [, command, numbers] of path.getAttribute('d').matchAll(/([MLHV])([^MLHV]*)/g)) {
      const values = numbers.trim().split(/[ ,]+/).map(Number);
      if (command === 'H') x = values[0];
      else if (command === 'V') y = values[0];
      else [x, y] = values;
      points.push([x, y]);
    }
    return points;
  };
  // The line's height at a pixel: its last point up to there, or between two where it slopes.
  const heightAt = (points, at) => {
    if (!points.length || at < points[0][0] || at > points.at(-1)[0] + 0.5) return null;
    let low = 0, high = points.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (points[middle][0] <= at) low = middle; else high = middle - 1;
    }
    const [x, y] = points[low], next = points[low + 1];
    return next && next[0] > x ? y + (next[1] - y) * (at - x) / (next[0] - x) : y;
  };

  const plotOf = (element) => {
    const [left, right, xFrom, xTo] = element.dataset.x.split(' ').map(Number);
    const [bottom, top, yFrom, yTo] = element.dataset.y.split(' ').map(Number);
    const [xUnit, yUnit] = element.dataset.units.split(' ');
    const lines = [...element.querySelectorAll('path[data-arm]')].map((path) => ({
      arm: path.dataset.arm, path, points: null,
    }));
    return { name: element.dataset.name || '', left, right, xFrom, xTo, bottom, top, yFrom, yTo, xUnit, yUnit, lines };
  };
  const xAt = (plot, at) => plot.xFrom + (at - plot.left) / (plot.right - plot.left) * (plot.xTo - plot.xFrom);
  const yAt = (plot, at) => plot.yFrom + (at - plot.bottom) / (plot.top - plot.bottom) * (plot.yTo - plot.yFrom);

  const rows = (plots, at) => {
    const body = [];
    for (const plot of plots) {
      const values = plot.lines.map((line) => {
        line.points ??= pointsOf(line.path);
        const height = heightAt(line.points, at);
        return height === null ? null : [line, shown(yAt(plot, height), plot.yUnit)];
      }).filter(Boolean);
      if (!values.length) continue;
      body.push(plain(document.createElement('b'), plot.name));
      const table = document.createElement('table');
      for (const [line, value] of values) {
        const row = table.insertRow();
        const swatch = document.createElement('i');
        swatch.style.background = getComputedStyle(line.path).stroke;
        row.insertCell().append(swatch, line.arm);
        plain(row.insertCell(), value);
      }
      body.push(table);
    }
    return body;
  };

  for (const svg of document.querySelectorAll('svg.lh')) {
    const panels = [...svg.querySelectorAll('g[data-x]')];
    const plots = panels.length ? panels.map(plotOf) : svg.dataset.x ? [plotOf(svg)] : [];
    if (!plots.length) continue;
    const first = plots[0], last = plots.at(-1);
    const withLines = plots.some((plot) => plot.lines.length);
    const cross = document.createElementNS(svg.namespaceURI, 'line');
    cross.setAttribute('class', 'lh-cross');
    cross.setAttribute('y1', first.top);
    cross.setAttribute('y2', last.bottom);
    cross.style.display = 'none';
    svg.append(cross);
    let at = null;

    const hide = () => { reading.style.display = cross.style.display = 'none'; };
    const show = (x, pixel, pointed) => {
      at = x;
      const title = document.createElement('b');
      const time = shown(xAt(first, x), first.xUnit);
      const under = pointed && plots.find((plot) => pointed.y <= plot.bottom && pointed.y >= plot.top);
      plain(title, withLines || !under ? time : time + ', ' + shown(yAt(under, pointed.y), under.yUnit));
      reading.replaceChildren(title, ...rows(plots, x));
      reading.style.display = 'block';
      cross.setAttribute('x1', x);
      cross.setAttribute('x2', x);
      cross.style.display = withLines ? '' : 'none';
      const box = reading.getBoundingClientRect();
      const flip = pixel.x + 18 + box.width > innerWidth;
      reading.style.left = Math.max(4, flip ? pixel.x - 18 - box.width : pixel.x + 18) + 'px';
      reading.style.top = Math.max(4, Math.min(pixel.y + 14, innerHeight - box.height - 8)) + 'px';
    };

    svg.addEventListener('pointermove', (event) => {
      const matrix = svg.getScreenCTM();
      if (!matrix) return;
      const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix.inverse());
      const inside = point.x >= first.left && point.x <= first.right && point.y >= first.top && point.y <= last.bottom;
      if (inside) show(point.x, { x: event.clientX, y: event.clientY }, point); else hide();
    });
    svg.addEventListener('pointerleave', hide);
    svg.addEventListener('blur', hide);
    if (!withLines) continue;
    svg.setAttribute('tabindex', '0');
    svg.addEventListener('keydown', (event) => {
      const width = first.right - first.left;
      const step = { ArrowLeft: -width / 100, ArrowRight: width / 100, Home: -width, End: width }[event.key];
      if (event.key === 'Escape') hide();
      if (!step) return;
      event.preventDefault();
      const x = Math.min(first.right, Math.max(first.left, (at ?? first.left) + step));
      const matrix = svg.getScreenCTM();
      if (matrix) show(x, new DOMPoint(x, first.top).matrixTransform(matrix), null);
    });
  }

  // A way to a folded cell opens it.
  const open = () => {
    const target = location.hash && document.getElementById(location.hash.slice(1));
    const folded = target && target.querySelector('details.cell');
    if (folded) { folded.open = true; target.scrollIntoView(); }
  };
  addEventListener('hashchange', open);
  open();
})();
