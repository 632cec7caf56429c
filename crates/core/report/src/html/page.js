'use strict';
// The values under the pointer. Every picture says which pixels stand for which values.
(() => {
  const reading = document.createElement('div');
  reading.id = 'reading';
  document.body.append(reading);

  const scaled = (value, units) => {
    for (const [size, unit] of units) {
      if (Math.abs(value) >= size) return (value / size).toPrecision(4) + ' ' + unit;
    }
    return value.toPrecision(3) + ' ' + units.at(-1)[1];
  };
  const shown = (value, unit) => {
    if (unit === 's') return scaled(value, [[1, 's'], [1e-3, 'ms'], [1e-6, 'µs']]);
    if (unit === 'B') return scaled(value, [[1e9, 'GB'], [1e6, 'MB'], [1e3, 'kB'], [1, 'B']]);
    return (value * 100).toFixed(0) + ' %';
  };

  for (const svg of document.querySelectorAll('svg[data-x]')) {
    const [left, right, xFrom, xTo] = svg.dataset.x.split(' ').map(Number);
    const [bottom, top, yFrom, yTo] = svg.dataset.y.split(' ').map(Number);
    const [xUnit, yUnit] = svg.dataset.units.split(' ');
    svg.addEventListener('pointermove', (event) => {
      const matrix = svg.getScreenCTM();
      if (!matrix) return;
      const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix.inverse());
      const inside = at.x >= left && at.x <= right && at.y >= top && at.y <= bottom;
      reading.style.display = inside ? 'block' : 'none';
      if (!inside) return;
      const x = xFrom + (at.x - left) / (right - left) * (xTo - xFrom);
      const y = yFrom + (at.y - bottom) / (top - bottom) * (yTo - yFrom);
      reading.textContent = shown(x, xUnit) + ', ' + shown(y, yUnit);
      reading.style.left = Math.min(event.clientX + 14, innerWidth - 170) + 'px';
      reading.style.top = event.clientY + 14 + 'px';
    });
    svg.addEventListener('pointerleave', () => { reading.style.display = 'none'; });
  }
})();
