//! Positions within the ranks: few crossings, straight edges.

/// Sweeps over all ranks that reduce crossings, from each start.
const SWEEPS: usize = 8;
/// Orders that the sweeps start from, in graphs of up to [`STARTED_MAX`] boxes and bends; the first one in larger graphs.
const STARTS: u64 = 12;
/// Boxes and bends up to which the sweeps start again from other orders.
const STARTED_MAX: usize = 200;
/// Passes that move steps towards their neighbours.
const PASSES: usize = 6;
/// Bends of all edges together; beyond that edges are straight.
pub(super) const BENDS_MAX: usize = 20_000;
/// Boxes and bends up to which neighbours are exchanged one by one.
const EXCHANGED_MAX: usize = 600;
/// Distance between a bend and its neighbours; boxes keep 1.
const BEND_GAP: f64 = 0.6;

/// Boxes and bends in layers. The first indices are steps, the others are bends.
pub(super) struct Grid {
    pub(super) steps: usize,
    pub(super) layers: Vec<Vec<usize>>,
    /// Neighbours in the layer before and in the layer after.
    pub(super) before: Vec<Vec<usize>>,
    pub(super) after: Vec<Vec<usize>>,
    /// Each edge as its boxes and bends.
    pub(super) chains: Vec<Vec<usize>>,
    /// Places in the layers.
    pub(super) places: Vec<usize>,
    pub(super) positions: Vec<f64>,
}

impl Grid {
    pub(super) fn new(ranks: &[usize], edges: Vec<(usize, usize)>) -> Self {
        let span = |(from, to): &(usize, usize)| ranks[*to].saturating_sub(ranks[*from] + 1);
        let has_bends = edges.iter().map(span).sum::<usize>() <= BENDS_MAX;
        let mut layers = vec![Vec::new(); ranks.iter().max().map_or(0, |most| most + 1)];
        for (i, rank) in ranks.iter().enumerate() {
            layers[*rank].push(i);
        }
        let mut grid = Self {
            steps: ranks.len(),
            layers,
            before: vec![Vec::new(); ranks.len()],
            after: vec![Vec::new(); ranks.len()],
            chains: Vec::with_capacity(edges.len()),
            places: Vec::new(),
            positions: Vec::new(),
        };
        for (from, to) in edges {
            let mut chain = vec![from];
            if ranks[from] < ranks[to] && has_bends {
                for rank in ranks[from] + 1..ranks[to] {
                    let bend = grid.before.len();
                    grid.layers[rank].push(bend);
                    grid.before.push(Vec::new());
                    grid.after.push(Vec::new());
                    chain.push(bend);
                }
            }
            chain.push(to);
            if has_bends || ranks[from] + 1 == ranks[to] {
                for pair in chain.windows(2).filter(|_| ranks[from] < ranks[to]) {
                    grid.after[pair[0]].push(pair[1]);
                    grid.before[pair[1]].push(pair[0]);
                }
            }
            grid.chains.push(chain);
        }
        grid.places = vec![0; grid.before.len()];
        grid.positions = vec![0.0; grid.before.len()];
        grid.number_places();
        grid
    }

    pub(super) fn number_places(&mut self) {
        for layer in &self.layers {
            for (place, i) in layer.iter().enumerate() {
                self.places[*i] = place;
            }
        }
    }

    /// Orders each layer by the places of the neighbours, back and forth, from several starts, and keeps the best order.
    /// Of equally good orders it keeps the first, which is the nearest to the order of the steps.
    pub(super) fn reduce_crossings(&mut self) {
        let first = self.layers.clone();
        let mut best = (self.count_crossings(), first.clone());
        let starts = if self.places.len() <= STARTED_MAX { STARTS } else { 1 };
        for start in 0..starts {
            if best.0 == 0 {
                break;
            }
            self.layers.clone_from(&first);
            self.shuffle_layers(start);
            self.sweep_layers(start % 2 == 1, &mut best);
        }
        self.layers = best.1;
        self.number_places();
    }

    /// Puts each layer into an order that depends on `start` alone; 0 leaves it as it is.
    fn shuffle_layers(&mut self, start: u64) {
        let mut word = start;
        for layer in self.layers.iter_mut().filter(|_| start > 0) {
            for place in (1..layer.len()).rev() {
                // Multiplier and increment of D. Knuth's MMIX.
                word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let other = usize::try_from(word >> 33).unwrap_or(0) % (place + 1);
                layer.swap(place, other);
            }
        }
        self.number_places();
    }

    /// Sweeps over all layers; `best` is the least number of crossings so far, and its order.
    pub(super) fn sweep_layers(&mut self, by_median: bool, best: &mut (usize, Vec<Vec<usize>>)) {
        for sweep in 0..SWEEPS {
            let is_forward = sweep % 2 == 0;
            for n in 0..self.layers.len() {
                let n = if is_forward { n } else { self.layers.len() - 1 - n };
                self.order_layer(n, is_forward, by_median);
            }
            if self.places.len() <= EXCHANGED_MAX {
                self.exchange_neighbours();
            }
            let crossings = self.count_crossings();
            if crossings < best.0 {
                *best = (crossings, self.layers.clone());
            }
            if best.0 == 0 {
                return;
            }
        }
    }

    /// Orders a layer by the mean or median place of the neighbours in the layer before, or after.
    fn order_layer(&mut self, n: usize, is_forward: bool, by_median: bool) {
        let neighbours = if is_forward { &self.before } else { &self.after };
        let wanted = |i: usize| {
            let mut places: Vec<usize> = neighbours[i].iter().map(|other| self.places[*other]).collect();
            places.sort_unstable();
            match places.len() {
                0 => self.places[i] as f64,
                count if by_median => (places[(count - 1) / 2] + places[count / 2]) as f64 / 2.0,
                count => places.iter().sum::<usize>() as f64 / count as f64,
            }
        };
        let mut keyed: Vec<(f64, usize)> = self.layers[n].iter().map(|i| (wanted(*i), *i)).collect();
        keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
        self.layers[n] = keyed.into_iter().map(|(_, i)| i).collect();
        for (place, i) in self.layers[n].iter().enumerate() {
            self.places[*i] = place;
        }
    }

    /// Exchanges neighbours of a layer as long as that removes crossings.
    fn exchange_neighbours(&mut self) {
        for _ in 0..4 {
            let mut has_changed = false;
            for n in 0..self.layers.len() {
                for place in 1..self.layers[n].len() {
                    let (a, b) = (self.layers[n][place - 1], self.layers[n][place]);
                    if self.crossings_between(a, b) > self.crossings_between(b, a) {
                        self.layers[n].swap(place - 1, place);
                        (self.places[a], self.places[b]) = (place, place - 1);
                        has_changed = true;
                    }
                }
            }
            if !has_changed {
                return;
            }
        }
    }

    /// Crossings of the edges of two boxes of one layer when `a` stands before `b`.
    fn crossings_between(&self, a: usize, b: usize) -> usize {
        let count = |own: &[usize], others: &[usize]| {
            let pairs = own.iter().flat_map(|x| others.iter().map(move |y| (x, y)));
            pairs.filter(|(x, y)| self.places[**x] > self.places[**y]).count()
        };
        count(&self.before[a], &self.before[b]) + count(&self.after[a], &self.after[b])
    }

    pub(super) fn count_crossings(&self) -> usize {
        self.layers.iter().map(|layer| self.layer_crossings(layer)).sum()
    }

    /// Crossings of the edges that leave a layer, with a tree of sums.
    fn layer_crossings(&self, layer: &[usize]) -> usize {
        let mut ends = Vec::new();
        for i in layer {
            let mut own: Vec<usize> = self.after[*i].iter().map(|to| self.places[*to]).collect();
            own.sort_unstable();
            ends.extend(own);
        }
        let mut sums = vec![0_usize; ends.iter().max().map_or(0, |most| most + 2)];
        let mut crossings = 0;
        for (seen, end) in ends.iter().enumerate() {
            let (mut at, mut not_after) = (end + 1, 0);
            while at > 0 {
                not_after += sums[at];
                at &= at - 1;
            }
            crossings += seen - not_after;
            at = end + 1;
            while at < sums.len() {
                sums[at] += 1;
                at += at & at.wrapping_neg();
            }
        }
        crossings
    }

    /// Moves each box towards its neighbours, as far as its own neighbours in the layer allow.
    pub(super) fn assign_positions(&mut self) {
        for n in 0..self.layers.len() {
            let start: Vec<f64> = vec![0.0; self.layers[n].len()];
            self.place_layer(n, &start);
        }
        for pass in 0..PASSES {
            let is_forward = pass % 2 == 0;
            for n in 0..self.layers.len() {
                let n = if is_forward { n } else { self.layers.len() - 1 - n };
                let wanted: Vec<f64> = self.layers[n].iter().map(|i| self.wanted_position(*i, is_forward)).collect();
                self.place_layer(n, &wanted);
            }
        }
        let least = self.positions.iter().copied().fold(f64::INFINITY, f64::min);
        for position in &mut self.positions {
            *position = ((*position - least) * 100.0).round() / 100.0;
        }
    }

    fn wanted_position(&self, i: usize, is_forward: bool) -> f64 {
        let (first, second) =
            if is_forward { (&self.before[i], &self.after[i]) } else { (&self.after[i], &self.before[i]) };
        let neighbours = if first.is_empty() { second } else { first };
        match neighbours.len() {
            0 => self.positions[i],
            count => neighbours.iter().map(|other| self.positions[*other]).sum::<f64>() / count as f64,
        }
    }

    /// The positions nearest to the wanted ones, in least squares, that keep order and distances: groups that would
    /// overlap share the mean of what they want.
    fn place_layer(&mut self, n: usize, wanted: &[f64]) {
        let layer = &self.layers[n];
        let mut offsets = Vec::with_capacity(layer.len());
        let mut at = 0.0;
        for (place, i) in layer.iter().enumerate() {
            let is_box = |i: usize| i < self.steps;
            if place > 0 {
                at += if is_box(*i) && is_box(layer[place - 1]) { 1.0 } else { BEND_GAP };
            }
            offsets.push(at);
        }
        // Sum of what a group wants, and its size.
        let mut groups: Vec<(f64, usize)> = Vec::new();
        for (want, offset) in wanted.iter().zip(&offsets) {
            let mut group = (want - offset, 1);
            while let Some((sum, size)) = groups.last().copied()
                && sum / size as f64 >= group.0 / group.1 as f64
            {
                groups.pop();
                group = (group.0 + sum, group.1 + size);
            }
            groups.push(group);
        }
        let bases = groups.iter().flat_map(|(sum, size)| std::iter::repeat_n(sum / *size as f64, *size));
        let placed: Vec<(usize, f64)> =
            layer.iter().zip(bases.zip(&offsets)).map(|(i, (base, offset))| (*i, base + offset)).collect();
        for (i, position) in placed {
            self.positions[i] = position;
        }
    }
}
