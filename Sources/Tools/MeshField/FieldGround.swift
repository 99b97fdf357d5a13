import Common

/// The simulated field: positions of the nodes, their movement, and the links between them.
struct FieldGround: Sendable {
  struct Place: Sendable, Hashable {
    var x: Double
    var y: Double

    func distance(to other: Place) -> Double {
      let (dx, dy) = (x - other.x, y - other.y)
      return (dx * dx + dy * dy).squareRoot()
    }
  }

  struct Link: Sendable, Hashable {
    let number: LinkNumber
    /// The two nodes; the initiator of the link comes first.
    let ends: (Int32, Int32)

    static func == (left: Link, right: Link) -> Bool { left.number == right.number }
    func hash(into hasher: inout Hasher) { hasher.combine(number) }

    func other(than node: Int32) -> Int32 { ends.0 == node ? ends.1 : ends.0 }
  }

  /// A link that began or ended.
  enum Change: Sendable {
    case opened(Link)
    case closed(Link)
  }

  private let settings: FieldSettings
  private let speed: Double
  private(set) var places: [Place] = []
  private var goals: [Int32: Place] = [:]
  private(set) var isUp: [Bool]
  /// Links of each node, in order of creation.
  private(set) var links: [[Link]]
  private var byNumber: [LinkNumber: Link] = [:]
  private var nextNumber: LinkNumber = 1
  private var random: FieldRandom
  private var walks: FieldRandom
  private let centres: [Place]
  /// Whether the links are given; then none is made, and no node moves.
  private let isGiven: Bool

  init(_ scenario: Scenario, seed: UInt64) {
    settings = scenario.field
    speed = Double(scenario.people.speed) / 10
    random = FieldRandom(seed: seed, .links)
    walks = FieldRandom(seed: seed, .walks)
    isUp = Array(repeating: false, count: scenario.field.nodes)
    links = Array(repeating: [], count: scenario.field.nodes)
    isGiven = false
    var chance = FieldRandom(seed: seed, .places)
    centres = Self.centres(settings)
    places = Self.placed(settings, centres, &chance)
    var roles = FieldRandom(seed: seed, .roles)
    for node in places.indices where roles.chance(percent: scenario.people.walkers) {
      goals[Int32(node)] = places[node]
    }
  }

  /// Creates a field with fixed links, in which nodes do not move.
  init(nodes: Int, given pairs: [(Int32, Int32)]) {
    settings = FieldSettings()
    (speed, random, walks) = (0, FieldRandom(seed: 0), FieldRandom(seed: 0))
    isUp = Array(repeating: true, count: nodes)
    links = Array(repeating: [], count: nodes)
    places = Array(repeating: Place(x: 0, y: 0), count: nodes)
    centres = []
    isGiven = true
    for pair in pairs { _ = connect(pair.0, pair.1) }
  }

  // MARK: Positions

  private static func centres(_ settings: FieldSettings) -> [Place] {
    let across = Int(Double(settings.islands).squareRoot().rounded(.up))
    return (0..<settings.islands).map { island in
      Place(
        x: (Double(island % across) + 0.5) * Double(settings.width) / Double(across),
        y: (Double(island / across) + 0.5) * Double(settings.height) / Double(across))
    }
  }

  private static func placed(
    _ settings: FieldSettings, _ centres: [Place], _ random: inout FieldRandom
  ) -> [Place] {
    let (width, height) = (Double(settings.width), Double(settings.height))
    switch settings.placement {
    case .random:
      return (0..<settings.nodes).map { _ in Place(x: random.part() * width, y: random.part() * height) }
    case .even:
      let columns = max(1, Int((Double(settings.nodes) * width / height).squareRoot().rounded(.up)))
      let rows = (settings.nodes + columns - 1) / columns
      return (0..<settings.nodes).map { node in
        Place(
          x: (Double(node % columns) + random.part()) * width / Double(columns),
          y: (Double(node / columns) + random.part()) * height / Double(rows))
      }
    case .islands:
      return (0..<settings.nodes).map { node in
        within(centres[node % centres.count], Double(settings.islandRadius), &random)
      }
    }
  }

  private static func within(_ centre: Place, _ radius: Double, _ random: inout FieldRandom) -> Place {
    while true {
      let (x, y) = (2 * random.part() - 1, 2 * random.part() - 1)
      if x * x + y * y <= 1 { return Place(x: centre.x + radius * x, y: centre.y + radius * y) }
    }
  }

  /// Moves the walking nodes for this time.
  mutating func walk(seconds: Double) {
    for node in goals.keys.sorted() {
      guard var goal = goals[node] else { continue }
      var here = places[Int(node)]
      var way = speed * seconds
      while way > 0 {
        let rest = here.distance(to: goal)
        guard rest > way else {
          way -= rest
          here = goal
          goal = nextGoal()
          if rest == 0, goal == here { break }
          continue
        }
        here.x += (goal.x - here.x) * way / rest
        here.y += (goal.y - here.y) * way / rest
        way = 0
      }
      (places[Int(node)], goals[node]) = (here, goal)
    }
  }

  private mutating func nextGoal() -> Place {
    guard settings.placement == .islands else {
      return Place(x: walks.part() * Double(settings.width), y: walks.part() * Double(settings.height))
    }
    return Self.within(centres[walks.number(below: centres.count)], Double(settings.islandRadius), &walks)
  }

  // MARK: Presence

  mutating func arrive(_ node: Int32) { isUp[Int(node)] = true }

  /// Removes a node from the field.
  ///
  /// - Returns: the links that end with the node.
  mutating func leave(_ node: Int32) -> [Link] {
    isUp[Int(node)] = false
    let ended = links[Int(node)]
    for link in ended { forget(link) }
    return ended
  }

  /// Ends a link that a node has cut.
  mutating func cut(_ number: LinkNumber) {
    if let link = byNumber[number] { forget(link) }
  }

  // MARK: Links

  /// Ends links that have become too long, and makes new ones for nodes with too few.
  mutating func mend() -> [Change] {
    guard !isGiven else { return [] }
    var changes: [Change] = []
    // A link persists 10 % beyond the range in which it can be made.
    let reach = Double(settings.range) * 1.1
    for node in goals.keys.sorted() {
      for link in links[Int(node)]
      where places[Int(link.ends.0)].distance(to: places[Int(link.ends.1)]) > reach {
        forget(link)
        changes.append(.closed(link))
      }
    }
    let seekers = (0..<Int32(places.count)).filter { isUp[Int($0)] && links[Int($0)].count < settings.fewestLinks }
    guard !seekers.isEmpty else { return changes }
    let grid = Grid(places, cell: Double(settings.range))
    for node in seekers { changes += seek(node, grid) }
    return changes
  }

  private mutating func seek(_ node: Int32, _ grid: Grid) -> [Change] {
    var changes: [Change] = []
    let own = places[Int(node)]
    var near = grid.around(own).filter { other in
      other != node && isUp[Int(other)] && links[Int(other)].count < settings.links
        && places[Int(other)].distance(to: own) <= Double(settings.range)
        && !links[Int(node)].contains { $0.other(than: node) == other }
    }
    // A node finds its peers in random order.
    near.sort()
    while links[Int(node)].count < settings.fewestLinks, !near.isEmpty {
      let other = near.remove(at: random.number(below: near.count))
      changes.append(.opened(connect(node, other)))
    }
    return changes
  }

  private mutating func connect(_ node: Int32, _ other: Int32) -> Link {
    let link = Link(number: nextNumber, ends: (node, other))
    nextNumber += 1
    byNumber[link.number] = link
    links[Int(node)].append(link)
    links[Int(other)].append(link)
    return link
  }

  private mutating func forget(_ link: Link) {
    byNumber[link.number] = nil
    links[Int(link.ends.0)].removeAll { $0 == link }
    links[Int(link.ends.1)].removeAll { $0 == link }
  }

  /// Number of hops of each node from this one; -1 if unreachable.
  func hops(from node: Int32) -> [Int16] {
    var hops = [Int16](repeating: -1, count: places.count)
    hops[Int(node)] = 0
    var border = [node]
    while !border.isEmpty {
      var next: [Int32] = []
      for node in border {
        for link in links[Int(node)] {
          let other = link.other(than: node)
          guard hops[Int(other)] < 0 else { continue }
          hops[Int(other)] = hops[Int(node)] + 1
          next.append(other)
        }
      }
      border = next
    }
    return hops
  }

  /// Index of nodes by grid cell.
  private struct Grid {
    private struct Cell: Hashable {
      let x: Int
      let y: Int
    }

    private let size: Double
    private var cells: [Cell: [Int32]] = [:]

    init(_ places: [Place], cell size: Double) {
      self.size = size
      for (node, place) in places.enumerated() {
        cells[Cell(x: Int(place.x / size), y: Int(place.y / size)), default: []].append(Int32(node))
      }
    }

    /// Returns the nodes in the cell of the position and in the eight cells around it, in no order.
    func around(_ place: Place) -> [Int32] {
      let (x, y) = (Int(place.x / size), Int(place.y / size))
      return (x - 1...x + 1).flatMap { x in (y - 1...y + 1).flatMap { cells[Cell(x: x, y: $0)] ?? [] } }
    }
  }
}
