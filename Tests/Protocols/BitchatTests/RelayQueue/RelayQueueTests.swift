import Common
import Crypto
import Testing

@testable import Bitchat
@testable import BitchatWire

@Suite("The queue of packets that wait to be relayed")
struct RelayQueueTests {
  private static let hash = try? KeyedHash(key: [UInt8](repeating: 7, count: KeyedHash.keySize))

  private func relay(
    _ number: UInt8, _ type: MessageType = .message, from sender: UInt64 = 1, to recipient: UInt64? = nil,
    on link: UInt64 = 1, due milliseconds: Int, copiesEnough: Int = 3, bytes: Int = 100, timeToLive: UInt8 = 4,
    slack: Int = 0
  ) throws -> RelayQueue.Relay {
    let hash = try #require(Self.hash)
    return RelayQueue.Relay(
      received: [number] + [UInt8](repeating: 0, count: bytes - 1),
      key: WireKey(version: 1, type: type.rawValue, hash: [number].withUnsafeBytes { hash.hash($0) }), type: type,
      sender: PeerID(rawValue: sender), recipient: recipient.map { PeerID(rawValue: $0) }, nextHop: nil,
      first: copy(on: link, timeToLive: timeToLive + 1),
      decision: RelayDecision(
        timeToLive: timeToLive, delay: 0...1, copiesEnough: copiesEnough, isForSome: false,
        slack: .milliseconds(slack)),
      due: moment(milliseconds))
  }

  /// A copy over a link whose peer ID equals the link's number.
  private func copy(on link: UInt64, timeToLive: UInt8 = 5) -> RelayQueue.Copy {
    RelayQueue.Copy(link: LinkID(link), peer: PeerID(rawValue: link), timeToLive: timeToLive)
  }

  private func moment(_ milliseconds: Int) -> Instant { .zero.advanced(by: .milliseconds(milliseconds)) }

  private func numbers(_ relays: [RelayQueue.Relay]) -> [UInt8] { relays.map { $0.bytes[0] } }

  @Test("Packets in the relay queue are relayed at their due times, in order")
  func order() throws {
    var queue = RelayQueue()
    for (number, due) in [(1, 50), (2, 10), (3, 30)] { _ = queue.add(try relay(UInt8(number), due: due)) }
    #expect(queue.deadline == moment(10))
    let first = numbers(queue.takeDue(at: moment(30)))
    #expect(first == [2, 3])
    let second = numbers(queue.takeDue(at: moment(49)))
    #expect(second == [])
    let third = numbers(queue.takeDue(at: moment(50)))
    #expect(third == [1])
    #expect(queue.deadline == nil)
  }

  @Test("The relay queue wakes the node at the latest when the first packet can no longer wait")
  func slack() throws {
    var queue = RelayQueue()
    #expect(queue.latest == nil)
    _ = queue.add(try relay(1, due: 10, slack: 250))
    #expect(queue.deadline == moment(10) && queue.latest == moment(260))
    _ = queue.add(try relay(2, due: 90))
    #expect(queue.deadline == moment(10) && queue.latest == moment(90))
    _ = queue.add(try relay(3, due: 5, slack: 300))
    #expect(queue.deadline == moment(5) && queue.latest == moment(90))
    let due = numbers(queue.takeDue(at: moment(90)))
    #expect(due == [3, 1, 2])
  }

  @Test("Packets between two peers stay in order whatever their random delays, and delay no other packets")
  func conversation() throws {
    var queue = RelayQueue()
    _ = queue.add(try relay(1, .noiseEncrypted, from: 1, to: 2, due: 60))
    _ = queue.add(try relay(2, .noiseEncrypted, from: 1, to: 2, due: 20))
    _ = queue.add(try relay(3, .noiseEncrypted, from: 2, to: 1, due: 20))
    _ = queue.add(try relay(4, from: 1, due: 20))
    let early = numbers(queue.takeDue(at: moment(20)))
    #expect(early == [3, 4])
    let late = numbers(queue.takeDue(at: moment(60)))
    #expect(late == [1, 2])
  }

  @Test("A packet that enough neighbours have sent is not relayed, and never to a neighbour that sent it")
  func copies() throws {
    var queue = RelayQueue()
    let packet = try relay(1, due: 50)
    _ = queue.add(packet)
    let second = queue.handleCopy(copy(on: 2), of: packet.key)
    #expect(second == .waits(4))
    var waiting = queue
    let due = waiting.takeDue(at: moment(50))
    #expect(due.first?.heardOn == [LinkID(1), LinkID(2)])
    let third = queue.handleCopy(copy(on: 3), of: packet.key)
    #expect(third == .superfluous)
    #expect(queue.count == 0)
    let unknown = queue.handleCopy(copy(on: 3), of: packet.key)
    #expect(unknown == .unknown)
  }

  @Test(
    "Copies over one link, one peer's links or a link of an unknown peer do not cancel a relay")
  func oneNeighbour() throws {
    var queue = RelayQueue()
    let packet = try relay(1, due: 50)
    _ = queue.add(packet)
    for _ in 0..<5 {
      let first = queue.handleCopy(copy(on: 1), of: packet.key)
      let second = queue.handleCopy(copy(on: 2), of: packet.key)
      #expect(first == .waits(4) && second == .waits(4))
    }
    for link in [UInt64(7), 8] {
      let other = RelayQueue.Copy(link: LinkID(link), peer: PeerID(rawValue: 2), timeToLive: 5)
      let nobody = RelayQueue.Copy(link: LinkID(link + 10), peer: nil, timeToLive: 5)
      let effects = [queue.handleCopy(other, of: packet.key), queue.handleCopy(nobody, of: packet.key)]
      #expect(effects == [.waits(4), .waits(4)])
    }
    let third = queue.handleCopy(copy(on: 3), of: packet.key)
    #expect(third == .superfluous)
  }

  @Test("A copy from a peer that reaches fewer peers than this node does not count, and that peer gets the relay")
  func shortLived() throws {
    var queue = RelayQueue()
    let packet = try relay(1, due: 50)
    _ = queue.add(packet)
    for link in UInt64(2)...9 {
      let effect = queue.handleCopy(copy(on: link, timeToLive: 2), of: packet.key)
      #expect(effect == .waits(4))
    }
    let near = queue.handleCopy(copy(on: 10, timeToLive: 3), of: packet.key)
    #expect(near == .waits(4))
    let due = queue.takeDue(at: moment(50))
    #expect(due.first?.heardOn == [LinkID(1), LinkID(10)])
  }

  @Test("A packet is relayed with the highest TTL of its copies")
  func timeToLive() throws {
    var queue = RelayQueue()
    let packet = try relay(1, due: 50, timeToLive: 0)
    _ = queue.add(packet)
    func passedOn(_ copies: [UInt8?]) -> UInt8? {
      var waiting = queue
      for (link, timeToLive) in copies.enumerated() {
        _ = waiting.handleCopy(copy(on: UInt64(link) + 2), of: packet.key, timeToLive: timeToLive)
      }
      return waiting.takeDue(at: moment(50)).first?.bytes[2]
    }
    #expect(passedOn([]) == 0)
    #expect(passedOn([nil]) == 0)
    #expect(passedOn([4]) == 4)
    queue = RelayQueue()
    _ = queue.add(try relay(1, due: 50, copiesEnough: 9, timeToLive: 0))
    #expect(passedOn([4, 6, 3]) == 6)
  }

  @Test("A full relay queue drops public messages, and not announces or private packets")
  func room() throws {
    var queue = RelayQueue()
    _ = queue.add(try relay(1, .announce, due: 10))
    _ = queue.add(try relay(2, .noiseEncrypted, to: 2, due: 20))
    var dropped = 0
    for _ in 0..<1024 { dropped += queue.add(try relay(3, due: 30)) }
    #expect(dropped == 2)
    #expect(queue.count == 1024)
    let due = numbers(queue.takeDue(at: moment(20)))
    #expect(due == [1, 2])
  }

  @Test("The relay queue holds at most 2 MiB")
  func bytes() throws {
    var queue = RelayQueue()
    var dropped = 0
    for _ in 0..<5 { dropped += queue.add(try relay(1, due: 30, bytes: 512 << 10)) }
    #expect(dropped == 1)
    #expect(queue.count == 4)
    _ = queue.takeDue(at: moment(30))
    // Packets that were relayed no longer count.
    let after = queue.add(try relay(1, due: 40, bytes: 2 << 20))
    #expect(after == 0)
  }
}
