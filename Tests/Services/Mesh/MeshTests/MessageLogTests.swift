import Bitchat
import MeshStore
import Testing

@testable import Mesh

@Suite("What was said, as a list")
struct MessageLogTests {
  private static let ann = PeerID(rawValue: 1)
  private static let bob = PeerID(rawValue: 2)

  private static func message(_ number: UInt32, in conversation: PeerID? = nil, state: MeshMessage.State = .unread)
    -> MeshMessage
  {
    MeshMessage(
      number: number, time: UInt64(number), conversation: conversation, sender: conversation ?? bob, nickname: "",
      text: "\(number)", state: state)
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
}
