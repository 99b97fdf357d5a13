import Bitchat
import MeshStore
import Testing

@testable import Mesh

@Suite("What was said, as a list")
struct MessageLogTests {
  private static let ann = PeerID(rawValue: 1)
  private static let bob = PeerID(rawValue: 2)

  /// - Parameter sender: of a public line; of an own one it does not matter.
  private static func message(
    _ number: UInt32, in conversation: PeerID? = nil, from sender: PeerID = bob, state: MeshMessage.State = .unread
  ) -> MeshMessage {
    MeshMessage(
      number: number, time: UInt64(number), conversation: conversation, sender: conversation ?? sender, nickname: "",
      text: "\(number)", state: state)
  }

  /// The numbers of what is there when more came than there is room for.
  private static func numbers(
    after messages: [MeshMessage], _ more: ClosedRange<UInt32>, _ make: (UInt32) -> MeshMessage
  ) -> [UInt32] {
    var log = MessageLog()
    for message in messages + more.map(make) { log.append(message) }
    return log.messages.map(\.number)
  }

  @Test("No number is given twice, also where the messages that had the last ones are gone")
  func numbers() {
    var log = MessageLog()
    log.restore([Self.message(3), Self.message(1)], highest: 9)
    #expect(log.messages.map(\.number) == [1, 3])
    let (first, second) = (log.takeNumber(), log.takeNumber())
    #expect(first == 10 && second == 11)
  }

  @Test("Seen are the messages of one conversation up to the one that is named")
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

  @Test("Of more than 5,000 messages the oldest are forgotten, with all that is known of them")
  func bound() {
    var log = MessageLog()
    for number in 1...UInt32(MessageLog.limit + 10) { log.append(Self.message(number)) }
    #expect(log.messages.count == MessageLog.limit && log.messages.first?.number == 11)
    #expect(log.unread == MessageLog.limit && log[10] == nil)
    #expect(log.list(after: 0, limit: 3).map(\.number) == [11, 12, 13])
    #expect(log.list(after: 5009, limit: 500).map(\.number) == [5010])
  }

  @Test("Of a flood of lines nothing goes but its own: no private message, no line of others, none of this node's")
  func flood() {
    let first = (1...5 as ClosedRange<UInt32>).map { Self.message($0, in: Self.ann) }
    let second = (6...10 as ClosedRange<UInt32>).map { Self.message($0, from: Self.ann) }
    let own = (11...15 as ClosedRange<UInt32>).map { Self.message($0, state: .sent) }
    let kept = Self.numbers(after: first + second + own, 16...5020) { Self.message($0) }
    let expected: [UInt32] = Array(1...15) + Array(36...5020)
    #expect(kept == expected)
  }

  @Test("A line goes before a private message, whoever has how many of either")
  func lineFirst() {
    let told = (1...3000 as ClosedRange<UInt32>).map { Self.message($0, in: Self.bob) }
    let kept = Self.numbers(after: told, 3001...5003) { Self.message($0, from: PeerID(rawValue: UInt64($0))) }
    let expected: [UInt32] = Array(1...3000) + Array(3004...5003)
    #expect(kept == expected)
  }

  @Test("Of private messages those of who has more than a quarter go first, and none of this node's")
  func privateShares() {
    let first = (1...5 as ClosedRange<UInt32>).map { Self.message($0, in: Self.ann) }
    let own = (6...10 as ClosedRange<UInt32>).map { Self.message($0, in: Self.bob, state: .delivered) }
    let kept = Self.numbers(after: first + own, 11...5010) { Self.message($0, in: Self.bob) }
    let expected: [UInt32] = Array(1...10) + Array(21...5010)
    #expect(kept == expected)
  }

  @Test("Of long lines, and of long private messages, go those of who has sent the most, and no others")
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

  @Test("Bytes of what has gone are not counted, and one that is longer than all may be is there alone of its kind")
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

  @Test("What is no longer kept is no longer counted: its sender is as good as any other")
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
