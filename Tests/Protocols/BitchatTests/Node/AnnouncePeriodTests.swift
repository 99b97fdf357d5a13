import Common
import Testing

@testable import Bitchat
@testable import BitchatWire

@Suite("When a mesh node sends announces")
struct AnnouncePeriodTests {
  /// A node with this number of neighbours, started a minute ago.
  private static func hall(neighbours: Int, isSparing: Bool = false) -> MeshHall {
    var hall = MeshHall()
    hall.add(["ann"]) { $0.isSparing = isSparing }
    hall.add((0..<neighbours).map { "neighbour \($0)" })
    for neighbour in 0..<neighbours { hall.connect(0, neighbour + 1) }
    hall.pass(.seconds(60))
    return hall
  }

  /// The intervals in milliseconds between the broadcast announces that the node sends within this number of seconds.
  /// `each` is called once a second and may change the hall.
  private static func pauses(_ hall: inout MeshHall, for seconds: Int, _ each: (inout MeshHall) -> Void = { _ in })
    -> [Int64]
  {
    let overheard = Overheard.listen(to: &hall)
    for _ in 0..<seconds {
      each(&hall)
      hall.pass(.seconds(1))
    }
    let own = overheard.all(.announce).filter { packet in
      packet.from == 0 && packet.view?.timeToLive == Limits.timeToLive && packet.view?.sender == hall.nodes[0].id
    }
    // An announce is sent over all links at once, so one moment counts once.
    let moments = Set(own.map(\.at)).sorted()
    return zip(moments, moments.dropFirst()).map { $0.duration(to: $1) / .milliseconds(1) }.map { Int64($0) }
  }

  @Test(
    "A node announces every 15 s, with 6 neighbours every 30 s, and on battery every minute, with jitter",
    arguments: [
      (1, false, 11_000...19_000), (5, false, 11_000...19_000), (6, false, 22_000...38_000),
      (1, true, 57_000...63_000), (6, true, 57_000...63_000),
    ] as [(Int, Bool, ClosedRange<Int64>)])
  func period(neighbours: Int, isSparing: Bool, expected: ClosedRange<Int64>) {
    var hall = Self.hall(neighbours: neighbours, isSparing: isSparing)
    let pauses = Self.pauses(&hall, for: 1200)
    #expect(pauses.count >= 15)
    #expect(pauses.allSatisfy { expected.contains($0) }, "\(pauses)")
    #expect(Set(pauses).count > pauses.count / 2, "\(pauses)")
  }

  @Test("A node that knows over 256 peers announces every 32 to 44 s, before the iOS app's timeout of 45 s")
  func crowd() {
    var hall = Self.hall(neighbours: 1)
    let link = hall.links(0, 1)[0]
    let crowd = (0..<300).map { Stranger(UInt64($0)) }
    var next = 0
    func announceSome(_ hall: inout MeshHall) {
      for _ in 0..<5 {
        hall.inject(crowd[next % crowd.count].announce(at: hall.time, timeToLive: 4), on: link, to: 0)
        next += 1
      }
    }
    _ = Self.pauses(&hall, for: 400, announceSome)
    #expect(hall.nodes[0].engine.neighbourhood.peers.count > 256)
    let pauses = Self.pauses(&hall, for: 600, announceSome)
    #expect(pauses.count >= 12)
    #expect(pauses.allSatisfy { (32_000...44_000).contains($0) }, "\(pauses)")
  }

  @Test("A link whose peer has not announced itself gets an announce about every 4 s")
  func isolated() {
    var hall = MeshHall()
    hall.add(["ann"])
    hall.pass(.seconds(100))
    let link = hall.connect(to: 0)
    var moments: [Instant] = []
    for _ in 0..<140 {
      let before = hall.nodes[0].sent[link]?.count ?? 0
      hall.pass(.milliseconds(100))
      let new = (hall.nodes[0].sent[link] ?? []).dropFirst(before)
      if new.contains(where: { $0[1] == MessageType.announce.rawValue }) { moments.append(hall.now) }
    }
    let pauses = zip(moments, moments.dropFirst()).map { $0.duration(to: $1) }
    #expect(pauses.count >= 2)
    // The first interval begins with the announce at connection. Only the later ones are between two broadcasts.
    #expect(pauses.dropFirst().allSatisfy { .milliseconds(3300) < $0 && $0 < .milliseconds(4700) }, "\(pauses)")
  }
}
