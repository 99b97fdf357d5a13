/// The picture of the rooms in `docs/design.md`, as a text block with the mark `rooms`.
///
///     Host        BlueZ              a layer, and its highest row of rooms
///                 HCI  Air           a lower row
///                 --> Base System    the layers that this one uses
struct Picture {
  struct Row: Equatable {
    let layer: Layer
    let rooms: [String]
  }

  private(set) var rows: [Row] = []
  private(set) var arrows: [Layer: Set<Layer>] = [:]
  /// Entries of the picture that are not layers.
  private(set) var unknown: [String] = []

  /// - Parameter page: the whole page. Without a picture there are no rows.
  init(_ page: String) {
    var layer: Layer?
    let lines = page.split(separator: "\n", omittingEmptySubsequences: false)
    let block = lines.drop { $0 != "```rooms" }.dropFirst().prefix { $0 != "```" }
    for line in block {
      var words = line.split(separator: " ").map(String.init)
      if line.first != " ", let name = words.first {
        layer = Layer(rawValue: name)
        if layer == nil { unknown.append(name) }
        words.removeFirst()
      }
      guard let layer, !words.isEmpty else { continue }
      if words.first == "-->" {
        let targets = words.dropFirst()
        unknown += targets.filter { Layer(rawValue: $0) == nil }
        arrows[layer, default: []].formUnion(targets.compactMap(Layer.init))
      } else {
        rows.append(Row(layer: layer, rooms: words))
      }
    }
  }

  /// The sentences about differences between the picture and `Package.swift`.
  func differences(from manifest: Manifest) -> [String] {
    let drawn = rows.flatMap { row in row.rooms.map { "\(row.layer)/\($0)" } }
    let real = manifest.rooms.map { "\($0.layer)/\($0.name)" }
    var found = unknown.map { "\($0) is no layer" }
    found += Set(real).subtracting(drawn).sorted().map { "\($0) is not in the picture" }
    found += Set(drawn).subtracting(real).sorted().map { "\($0) is in the picture and not in Package.swift" }
    found += Set(drawn.filter { room in drawn.count { $0 == room } > 1 }).sorted().map { "\($0) is there twice" }
    let uses = manifest.rooms.flatMap { room in
      room.dependencies.compactMap { manifest[$0] }.map { (room, $0) }
    }
    found += uses.compactMap { room, used in
      guard room.layer == used.layer else {
        return arrows[room.layer, default: []].contains(used.layer)
          ? nil : "\(room.name) uses \(used.name), and no arrow leads from \(room.layer) to \(used.layer)"
      }
      guard let row = row(of: room), let other = self.row(of: used), other <= row else { return nil }
      return "\(room.name) uses \(used.name), which does not stand below it"
    }
    let drawnArrows = arrows.flatMap { from, to in to.map { (from, $0) } }
    found += drawnArrows.filter { from, to in !uses.contains { $0.layer == from && $1.layer == to } }
      .map { "no room of \($0) uses one of \($1)" }.sorted()
    found += drawnArrows.compactMap { from, to in
      guard let last = rows.lastIndex(where: { $0.layer == from }),
        let first = rows.firstIndex(where: { $0.layer == to }), first < last
      else { return nil }
      return "\(to) does not stand below \(from)"
    }.sorted()
    return found
  }

  private func row(of room: Manifest.Room) -> Int? {
    rows.firstIndex { $0.layer == room.layer && $0.rooms.contains(room.name) }
  }
}
