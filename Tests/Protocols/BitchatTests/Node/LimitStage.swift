import Common
import Crypto

@testable import Bitchat
@testable import BitchatWire

/// Ann with a link to the test, and Bob, to whom she relays.
struct LimitStage {
  var hall = MeshHall()
  /// Requests that Ann has answered since the stage was set up.
  private var answeredBefore: UInt64 = 0
  var answered: UInt64 { ann.engine.counters.answeredRequests - answeredBefore }
  let link: LinkID
  var ann: MeshHall.Node { hall.nodes[0] }
  var bob: MeshHall.Node { hall.nodes[1] }
  var time: UInt64 { hall.time }

  init() {
    hall.add(["ann", "bob"])
    hall.connect(0, 1)
    hall.pass(.seconds(2))
    link = hall.connect(to: 0)
    answeredBefore = hall.nodes[0].engine.counters.answeredRequests
  }

  mutating func inject(_ bytes: [UInt8]) { hall.inject(bytes, on: link, to: 0) }

  /// Whether no packet of a sender was relayed, and no record of it exists.
  mutating func hasNoTrace(of id: PeerID) -> Bool {
    let before = bob.engine.counters.frames
    hall.pass(.milliseconds(500))
    // Bob meanwhile receives Ann's own announces and sync requests.
    return ann.engine.peer(id) == nil && ann.engine.neighbourhood.peers.pin(of: id) == nil && bob.engine.peer(id) == nil
      && bob.engine.counters.frames <= before + 2
  }

  /// A text of this number of bytes that compresses badly.
  static func text(_ count: Int) -> String {
    var random = SeededRandom(seed: UInt64(count))
    return String(decoding: random.bytes(count).map { 0x21 + $0 % 0x5E }, as: UTF8.self)
  }
}
