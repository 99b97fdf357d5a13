import Common
import Testing

@testable import Bitchat
@testable import BitchatWire

@Suite("Announces that another peer replays as its neighbour's")
struct RepeatedAnnounceTests {
  @Test("An announce replayed after the duplicate filter has expired cuts no link and blocks no message")
  func replayedLate() throws {
    for seed in UInt64(1)...8 {
      var hall = MeshHall(seed: seed)
      hall.add(["ann", "bob"])
      let larger = hall.nodes[0].id < hall.nodes[1].id ? 1 : 0
      let link = hall.connect(larger, 1 - larger)
      var caught: [[UInt8]] = []
      hall.passes = { bytes, from, _ in
        if from != larger, bytes[1] == MessageType.announce.rawValue { caught.append(bytes) }
        return true
      }
      hall.pass(.seconds(75))
      let eve = hall.connect(to: larger)
      for announce in caught { hall.inject(announce.with(7, at: 2), on: eve, to: larger) }
      hall.pass(.seconds(1))
      #expect(hall.links(0, 1) == [link])
      try hall.tell("for you alone", to: 1 - larger, at: larger)
      hall.pass(.seconds(5))
      #expect(hall.nodes[1 - larger].told.map(\.text) == ["for you alone"])
    }
  }

  @Test(
    "Replayed announces of a distant peer do not block messages to it; unacknowledged ones use all links"
  )
  func replayedFromAfar() throws {
    var hall = MeshHall()
    hall.add(["ann", "bob", "cem"])
    hall.connect(0, 1)
    hall.connect(1, 2)
    var caught: [UInt8] = []
    let cem = Array(hall.nodes[2].id.bytes)
    hall.passes = { bytes, from, _ in
      if from == 2, bytes[1] == MessageType.announce.rawValue, Array(bytes[14..<22]) == cem { caught = bytes }
      return true
    }
    hall.pass(.seconds(20))
    let eve = hall.connect(to: 0)
    hall.inject(caught.with(7, at: 2), on: eve, to: 0)
    #expect(hall.nodes[0].engine.neighbours.contains(hall.nodes[2].id), "the announce shows nothing else")
    try hall.tell("are you there?", to: 2, at: 0)
    hall.pass(.seconds(40))
    #expect(hall.nodes[2].told.map(\.text) == ["are you there?"])
    #expect(hall.nodes[0].progress[1] == [.sent, .delivered])
  }

  @Test(
    "A relay still forwards messages to a peer whose announces another peer replays"
  )
  func replayedBesidePassingOn() throws {
    var hall = MeshHall()
    hall.add(["ann", "bob", "cem", "dea"])
    for (one, other) in [(3, 0), (0, 1), (1, 2)] { hall.connect(one, other) }
    let cem = Array(hall.nodes[2].id.bytes)
    var caught: [UInt8] = []
    hall.passes = { bytes, from, _ in
      if from == 2, bytes[1] == MessageType.announce.rawValue, Array(bytes[14..<22]) == cem { caught = bytes }
      return true
    }
    hall.pass(.seconds(20))
    let eve = hall.connect(to: 0)
    for _ in 0..<15 {
      hall.inject(caught.with(7, at: 2), on: eve, to: 0)
      hall.pass(.seconds(10))
    }
    #expect(hall.nodes[0].engine.neighbours.contains(hall.nodes[2].id))
    try hall.tell("by way of ann", to: 2, at: 3)
    hall.pass(.seconds(10))
    #expect(hall.nodes[2].told.map(\.text) == ["by way of ann"])
  }

  @Test("Replayed announces and messages in a peer's name do not prevent it from getting a public message")
  func echoed() throws {
    var hall = MeshHall()
    hall.latency = 5...5
    hall.add(["ann", "bob", "dea"])
    hall.connect(0, 1)
    hall.connect(2, 0)
    let bob = Array(hall.nodes[1].id.bytes)
    var (announce, line): ([UInt8], [UInt8]) = ([], [])
    hall.passes = { bytes, from, _ in
      if from == 1, bytes[1] == MessageType.announce.rawValue, Array(bytes[14..<22]) == bob { announce = bytes }
      if from == 2, bytes[1] == MessageType.message.rawValue { line = bytes }
      return true
    }
    hall.pass(.seconds(20))
    let eve = hall.connect(to: 0)
    hall.inject(announce.with(7, at: 2), on: eve, to: 0)
    #expect(hall.nodes[0].engine.neighbourhood.links[eve]?.peer == hall.nodes[1].id)
    _ = hall.say("hello, bob", at: 2)
    hall.pass(.milliseconds(6))
    #expect(hall.nodes[0].heard.count == 1)
    hall.inject(line.with(6, at: 2), on: eve, to: 0)
    hall.pass(.seconds(2))
    #expect(hall.nodes[1].heard.map(\.text) == ["hello, bob"])
  }
}
