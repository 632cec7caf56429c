'use strict';
// Linked plots of one connection: one time axis, drag or wheel to zoom, double click for all of it.
(() => {
  const UNITS = {
    s: [[1, 's'], [1e-3, 'ms'], [1e-6, 'µs']],
    B: [[1e9, 'GB'], [1e6, 'MB'], [1e3, 'kB'], [1, 'B']],
    'bit/s': [[1e9, 'Gbit/s'], [1e6, 'Mbit/s'], [1e3, 'kbit/s'], [1, 'bit/s']],
  };
  const LEFT = 74, RIGHT = 12, BAND = 18, GAP = 20;
  const HINT = 'Drag over a span, or turn the wheel, to zoom; double click for all of it.';

  const shown = (value, unit) => {
    if (value === 0) return '0 ' + unit;
    const [size, name] = UNITS[unit].find(([size]) => Math.abs(value) >= size) || UNITS[unit].at(-1);
    return Number((value / size).toPrecision(4)) + ' ' + name;
  };
  // Steps of 1, 2 or 5 times a power of ten.
  const ticks = (from, to, most) => {
    const raw = (to - from) / most, power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= raw) || raw;
    const first = Math.ceil(from / step), count = Math.floor((to - from) / step + 1e-9) + 1;
    return Array.from({ length: Math.max(0, count) }, (_, i) => (first + i) * step).filter((at) => at <= to * (1 + 1e-12));
  };
  // Index of the last point at or before a moment.
  const before = (points, t) => {
    let low = 0, high = points.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (points[middle][0] <= t) low = middle + 1; else high = middle;
    }
    return low - 1;
  };
  const style = (name) => getComputedStyle(document.body).getPropertyValue('--' + name).trim();

  const build = (holder) => {
    const source = JSON.parse(holder.querySelector('script').textContent);
    const panes = [
      { unit: 'B', height: 250, marks: source.data, lines: [['acks', 'ack', 'acknowledged'], ['edge', 'window', 'window edge']] },
      { unit: 'B', height: 140, lines: [['flight', 'data', 'in flight'], ['window', 'window', 'receive window'], ['cwnd', 'ack', 'cwnd (estimate)']] },
      { unit: 's', height: 90, dots: true, lines: [['rtt', 'data', 'RTT']] },
      { unit: 'bit/s', height: 90, lines: [['goodput', 'ack', 'goodput']] },
    ].filter((pane) => pane.marks || pane.lines.some(([key]) => source[key].length));
    const height = panes.reduce((sum, pane) => sum + pane.height + GAP, 0) + BAND + 44;
    const canvas = document.createElement('canvas'), said = document.createElement('p');
    canvas.tabIndex = 0;
    canvas.setAttribute('role', 'img');
    canvas.setAttribute('aria-label', 'Sequence numbers, bytes in flight, round-trip times, goodput and limits over one time axis. Arrow keys move, plus and minus zoom, escape shows everything.');
    said.className = 'quiet';
    said.setAttribute('role', 'status');
    said.textContent = HINT;
    // A picture's classes carry the colours of limits.
    const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
    const probe = document.createElementNS('http://www.w3.org/2000/svg', 'rect');
    svg.setAttribute('class', 'lh probe');
    svg.append(probe);
    holder.append(canvas, said, svg);
    const limitColour = (name) => { probe.setAttribute('class', name); return getComputedStyle(probe).fill; };

    let span = [0, source.duration], pointer = null, grabbed = null, width = 0;
    const x = (t) => LEFT + (t - span[0]) / (span[1] - span[0]) * (width - LEFT - RIGHT);
    const time = (px) => span[0] + (px - LEFT) / (width - LEFT - RIGHT) * (span[1] - span[0]);
    const show = (from, to) => {
      const least = source.duration * 1e-5 || 1e-6, middle = (from + to) / 2;
      if (to - from < least) { from = middle - least / 2; to = middle + least / 2; }
      span = [Math.max(0, from), Math.min(source.duration, to)];
      draw();
    };
    // Smallest and largest value that the span shows; a line's last value before it counts too. The window's
    // edge may lie far above everything and does not set the scale.
    const range = (pane) => {
      let low = Infinity, high = -Infinity;
      const see = (value) => { low = Math.min(low, value); high = Math.max(high, value); };
      for (const [t, from, to] of pane.marks || []) if (t >= span[0] && t <= span[1]) { see(from); see(to); }
      for (const [key] of pane.lines) {
        if (key === 'edge') continue;
        const points = source[key];
        for (let i = Math.max(0, before(points, span[0])); i < points.length && points[i][0] <= span[1]; i++) see(points[i][1]);
      }
      if (high === -Infinity) return [0, 1];
      if (!pane.marks) low = 0;
      const room = (high - low || 1) * 0.06;
      return [Math.max(0, low - room), high + room];
    };

    const drawLegend = (context, pane, top) => {
      const entries = pane.lines.filter(([key]) => source[key].length).map(([, colour, label]) => [colour, label]);
      if (pane.marks) {
        entries.unshift(['data', 'data']);
        if (pane.marks.some((mark) => mark[3])) entries.push(['retransmission', 'sent again']);
        if (source.sacks.length) entries.push(['arm3', 'SACK']);
      }
      let at = LEFT + 4;
      for (const [colour, label] of entries) {
        context.fillStyle = style(colour);
        context.fillRect(at, top - 9, 12, 3);
        context.fillStyle = style('muted');
        context.fillText(label, at + 16, top - 5);
        at += 32 + context.measureText(label).width;
      }
    };
    const drawMarks = (context, pane, y) => {
      for (const again of [0, 1]) {
        context.strokeStyle = style(again ? 'retransmission' : 'data');
        context.lineWidth = again ? 2.5 : 2;
        context.beginPath();
        for (const [t, from, to, repeated] of pane.marks) {
          if (repeated !== again || t < span[0] || t > span[1]) continue;
          context.moveTo(x(t), Math.max(y(from), y(to) + 1));
          context.lineTo(x(t), y(to));
        }
        context.stroke();
      }
      context.strokeStyle = style('arm3');
      context.lineWidth = 1.2;
      context.beginPath();
      for (const [t, from, to] of source.sacks) {
        if (t < span[0] || t > span[1]) continue;
        context.moveTo(x(t), y(from));
        context.lineTo(x(t), y(to));
      }
      context.stroke();
    };
    const drawLine = (context, pane, y, key, colour) => {
      const points = source[key];
      if (!points.length) return;
      context.strokeStyle = context.fillStyle = style(colour);
      context.lineWidth = 1.4;
      context.setLineDash(key === 'edge' || key === 'window' ? [6, 3] : key === 'cwnd' ? [2, 2] : []);
      context.beginPath();
      let last = null;
      for (let i = Math.max(0, before(points, span[0])); i < points.length; i++) {
        const [t, value] = points[i];
        if (pane.dots) context.rect(x(t) - 1, y(value) - 1, 2, 2);
        else if (last === null) context.moveTo(x(t), y(value));
        else { context.lineTo(x(t), y(last)); context.lineTo(x(t), y(value)); }
        last = value;
        if (t > span[1]) break;
      }
      if (pane.dots) context.fill(); else context.stroke();
      context.setLineDash([]);
    };
    const draw = () => {
      const ratio = devicePixelRatio || 1;
      width = holder.clientWidth;
      canvas.width = width * ratio;
      canvas.height = height * ratio;
      canvas.style.width = width + 'px';
      canvas.style.height = height + 'px';
      const context = canvas.getContext('2d');
      context.scale(ratio, ratio);
      context.font = '11px system-ui, sans-serif';
      let top = GAP;
      for (const pane of panes) {
        const bottom = top + pane.height, [low, high] = range(pane);
        const y = (value) => bottom - (value - low) / (high - low) * pane.height;
        context.strokeStyle = style('grid');
        context.fillStyle = style('muted');
        context.lineWidth = 1;
        context.textAlign = 'right';
        context.textBaseline = 'middle';
        for (const value of ticks(low, high, pane.height / 36)) {
          context.beginPath();
          context.moveTo(LEFT, y(value));
          context.lineTo(width - RIGHT, y(value));
          context.stroke();
          context.fillText(shown(value, pane.unit), LEFT - 6, y(value));
        }
        context.textAlign = 'left';
        context.textBaseline = 'alphabetic';
        drawLegend(context, pane, top);
        context.save();
        context.beginPath();
        context.rect(LEFT, top, width - LEFT - RIGHT, pane.height);
        context.clip();
        if (pane.marks) drawMarks(context, pane, y);
        for (const [key, colour] of pane.lines) drawLine(context, pane, y, key, colour);
        context.restore();
        top = bottom + GAP;
      }
      drawBand(context, top - GAP + 8);
    };
    const drawBand = (context, top) => {
      for (const [from, to, , colour] of source.limits) {
        if (to < span[0] || from > span[1]) continue;
        const left = Math.max(LEFT, x(from)), right = Math.min(width - RIGHT, x(to));
        context.fillStyle = limitColour(colour);
        context.fillRect(left, top, Math.max(right - left, 0.5), BAND);
      }
      context.fillStyle = style('muted');
      context.textAlign = 'right';
      context.textBaseline = 'middle';
      context.fillText('limit', LEFT - 6, top + BAND / 2);
      context.textAlign = 'center';
      context.textBaseline = 'alphabetic';
      for (const t of ticks(span[0], span[1], width / 110)) context.fillText(shown(t, 's'), x(t), top + BAND + 16);
      if (pointer === null) return;
      if (grabbed !== null) {
        context.fillStyle = style('area');
        context.fillRect(Math.min(grabbed, pointer), GAP, Math.abs(pointer - grabbed), top + BAND - GAP);
        return;
      }
      context.strokeStyle = style('muted');
      context.lineWidth = 1;
      context.beginPath();
      context.moveTo(pointer, GAP);
      context.lineTo(pointer, top + BAND);
      context.stroke();
    };
    const tell = () => {
      if (pointer === null) { said.textContent = HINT; return; }
      const t = time(pointer), words = [shown(t, 's')];
      for (const pane of panes) {
        for (const [key, , label] of pane.lines) {
          const point = source[key][before(source[key], t)];
          if (point) words.push(label + ' ' + shown(point[1], pane.unit));
        }
      }
      const limit = source.limits.find(([from, to]) => t >= from && t <= to);
      if (limit) words.push('limit: ' + limit[2]);
      said.textContent = words.join(' · ');
    };

    const place = (event) => Math.min(width - RIGHT, Math.max(LEFT, event.clientX - canvas.getBoundingClientRect().left));
    canvas.addEventListener('pointermove', (event) => { pointer = place(event); draw(); tell(); });
    canvas.addEventListener('pointerleave', () => { if (grabbed === null) { pointer = null; draw(); tell(); } });
    canvas.addEventListener('pointerdown', (event) => { grabbed = place(event); canvas.setPointerCapture(event.pointerId); });
    canvas.addEventListener('pointerup', (event) => {
      const from = grabbed, to = place(event);
      grabbed = null;
      if (from !== null && Math.abs(to - from) > 4) show(time(Math.min(from, to)), time(Math.max(from, to)));
      else draw();
    });
    canvas.addEventListener('dblclick', () => show(0, source.duration));
    canvas.addEventListener('wheel', (event) => {
      event.preventDefault();
      const at = time(place(event)), factor = event.deltaY > 0 ? 1.25 : 0.8;
      show(at - (at - span[0]) * factor, at + (span[1] - at) * factor);
    }, { passive: false });
    canvas.addEventListener('keydown', (event) => {
      const size = span[1] - span[0], middle = (span[0] + span[1]) / 2;
      const move = { ArrowLeft: -0.2, ArrowRight: 0.2 }[event.key];
      if (move) {
        const by = Math.max(-span[0], Math.min(source.duration - span[1], size * move));
        show(span[0] + by, span[1] + by);
      } else if (event.key === '+') show(middle - size / 3, middle + size / 3);
      else if (event.key === '-') show(middle - size * 0.75, middle + size * 0.75);
      else if (event.key === 'Escape') show(0, source.duration);
      else return;
      event.preventDefault();
    });
    new ResizeObserver(draw).observe(holder);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
    draw();
    // The still pictures below show the same; they come back on paper.
    holder.nextElementSibling?.classList.add('replaced');
  };
  document.querySelectorAll('.linked').forEach(build);
})();
