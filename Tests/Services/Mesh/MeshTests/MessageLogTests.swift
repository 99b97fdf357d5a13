import BitchatWire
import MeshStore
import Testing

@testable import Mesh

@Suite("The log of mesh messages")
struct MessageLogTests {
  private static let ann = PeerID(rawValue: 1)
  private static let bob = PeerID(rawValue: 2)

  /// - Parameter sender: sender of a public message; ignored for an own message.
  private static func message(
    _ number: UInt32, in conversation: PeerID? = nil, from sender: PeerID = bob, state: MeshMessage.State = .unread
  ) -> MeshMessage {
    MeshMessage(
      number: number, time: UInt64(number), conversation: conversation, sender: conversation ?? sender, nickname: "",
      text: "\(number)", state: state)
  }

  /// The numbers of the stored messages after more arrived than the capacity.
  private static func numbers(
    after messages: [MeshMessage], _ more: ClosedRange<UInt32>, _ make: (UInt32) -> MeshMessage
  ) -> [UInt32] {
    var log = MessageLog()
    for message in messages + more.map(make) { log.append(message) }
    return log.messages.map(\.number)
  }

  @Test("Mesh message numbers are not used again, even after the last messages were removed")
  func numbers() {
    var log = MessageLog()
    log.restore([Self.message(3), Self.message(1)], highest: 9)
    #expect(log.messages.map(\.number) == [1, 3])
    let (first, second) = (log.takeNumber(), log.takeNumber())
    #expect(first == 10 && second == 11)
  }

  @Test("`markSeen` marks the messages of one conversation up to the given message")
  func seen() {
    var log = MessageLog()
    for number in 1...6 as ClosedRange<UInt32> {
      log.append(Self.message(number, in: number.isMultiple(of: 2) ? Self.ann : nil))
    }
    #expect(log.unread == 6)
    let seen = log.markSeen(4)?.map(\.number)
    #expect(seen == [2, 4])
    #expect(log.unread == 4 && log[6]?.state == .unread && log[1]?.state == .unread)
    let again = log.markSeen(4)
    #expect(again == [])
    let missing = log.markSeen(7)
    #expect(missing == nil)
  }

  @Test("If the log has more than 5,000 mesh messages, the oldest are removed")
  func bound() {
    var log = MessageLog()
    for number in 1...UInt32(MessageLog.limit + 10) { log.append(Self.message(number)) }
    #expect(log.messages.count == MessageLog.limit && log.messages.first?.number == 11)
    #expect(log.unread == MessageLog.limit && log[10] == nil)
    #expect(log.list(after: 0, limit: 3).map(\.number) == [11, 12, 13])
    #expect(log.list(after: 5009, limit: 500).map(\.number) == [5010])
  }

  @Test("A flood of public mesh messages evicts only messages of the flood from the log")
  func flood() {
    let first = (1...5 as ClosedRange<UInt32>).map { Self.message($0, in: Self.ann) }
    let second = (6...10 as ClosedRange<UInt32>).map { Self.message($0, from: Self.ann) }
    let own = (11...15 as ClosedRange<UInt32>).map { Self.message($0, state: .sent) }
    let kept = Self.numbers(after: first + second + own, 16...5020) { Self.message($0) }
    let expected: [UInt32] = Array(1...15) + Array(36...5020)
    #expect(kept == expected)
  }

  @Test("The log evicts public mesh messages before any private one, however many messages their senders have")
  func lineFirst() {
    let told = (1...3000 as ClosedRange<UInt32>).map { Self.message($0, in: Self.bob) }
    let kept = Self.numbers(after: told, 3001...5003) { Self.message($0, from: PeerID(rawValue: UInt64($0))) }
    let expected: [UInt32] = Array(1...3000) + Array(3004...5003)
    #expect(kept == expected)
  }

  @Test("Among private messages the log evicts those of senders with over a quarter first, and the user's own never")
  func privateShares() {
    let first = (1...5 as ClosedRange<UInt32>).map { Self.message($0, in: Self.ann) }
    let own = (6...10 as ClosedRange<UInt32>).map { Self.message($0, in: Self.bob, state: .delivered) }
    let kept = Self.numbers(after: first + own, 11...5010) { Self.message($0, in: Self.bob) }
    let expected: [UInt32] = Array(1...10) + Array(21...5010)
    #expect(kept == expected)
  }

  @Test("Among long mesh messages the log evicts only those of the sender with the most bytes")
  func bytes() {
    func long(_ number: UInt32, in conversation: PeerID? = nil) -> MeshMessage {
      var message = Self.message(number, in: conversation)
      message.text = String(repeating: "x", count: 250_000)
      return message
    }
    let first = [Self.message(1, from: Self.ann), Self.message(2, in: Self.ann)]
    let own = [Self.message(3, state: .sent), Self.message(4, in: Self.bob, state: .delivered)]
    let lines = Self.numbers(after: first + own, 5...104) { long($0) }
    let fit = UInt32(MessageLog.lineBytes / 250_000)
    #expect(lines == Array(1...4) + Array((105 - fit)...104))
    let privateOnes = Self.numbers(after: first + own, 5...204) { long($0, in: Self.bob) }
    let fitPrivate = UInt32(MessageLog.privateBytes / 250_000)
    #expect(privateOnes == Array(1...4) + Array((205 - fitPrivate)...204))
  }

  @Test("Evicted mesh messages free their bytes, and a private one above the limit evicts all others from the log")
  func bytesGone() {
    var log = MessageLog()
    var long = Self.message(1)
    long.text = String(repeating: "x", count: MessageLog.lineBytes)
    log.append(long)
    log.remove([1])
    for number in 2...9 as ClosedRange<UInt32> { log.append(Self.message(number)) }
    #expect(log.messages.map(\.number) == Array(2...9))
    long.number = 10
    long.text += "x"
    log.append(long)
    #expect(log.messages.map(\.number) == [10])
  }

  @Test("Removed messages no longer count towards their sender's share")
  func uncounted() {
    var log = MessageLog()
    for number in 1...2000 as ClosedRange<UInt32> { log.append(Self.message(number)) }
    log.remove(Array(1...2000))
    for number in 2001...7001 as ClosedRange<UInt32> {
      log.append(Self.message(number, from: number == 2100 ? Self.bob : PeerID(rawValue: UInt64(100 + number % 10))))
    }
    #expect(log[2001] == nil && log[2100] != nil && log.messages.count == MessageLog.limit)
  }
}
