import Bytes
import Common
import Crypto
import Foundation

@testable import PBLEC

extension Target {
  /// The broadcast channel: the content of advertisements, and the engine with reports of many peers in any order and
  /// at any time.
  static let pblec = [
    Target(
      name: "pblec-report",
      seeds: {
        let vectors = try PBLECVectors.read()
        let lists =
          vectors.packets.map(\.adv) + vectors.malformed.values.map(\.adv).sorted() + vectors.ibeacon.values.map(\.adv)
        return try lists.map { try Hex.decode($0) }
      },
      goals: ["message", "stop", "beacon", "refused", "nothing"],
      play: { bytes in
        let report = Report(reading: Array(bytes))
        switch report {
        case .message(let packet):
          promise(packet.text.count <= Limits.heardTextBytes && packet.text.count > 0, "a text has its limit")
          promise(!MessageText.hasControls(packet.text.bytes[...]), "a text has no controls")
          promise(packet.text.string.utf8.elementsEqual(packet.text.bytes), "a text is UTF-8")
          let again = taken { try MessageText(packet.text.string) }
          promise((again != nil) == (packet.text.count <= Limits.textBytes), "what fits can be sent")
          if again != nil { promise(Report(reading: packet.bytes) == report, "a packet is read as it was written") }
          return ["message"]
        case .beacon(let beacon):
          promise(Report(reading: beacon.bytes) == report, "a beacon is read as it was written")
          return ["beacon"]
        case .stop: return ["stop"]
        case .refused: return ["refused"]
        case .nothing: return ["nothing"]
        }
      }),
    Target(
      name: "pblec-name",
      seeds: { try PBLECVectors.read().packets.map { try Array(Hex.decode($0.adv).dropFirst(5)) } },
      goals: ["complete", "shortened", "clipped"],
      play: { bytes in
        let name = Array(bytes.prefix(29))
        func report(_ type: UInt8) -> Report { Report(reading: [UInt8(1 + name.count), type] + name) }
        var reached: Set<String> = []
        let (complete, shortened) = (report(MessagePacket.completeName), report(MessagePacket.shortenedName))
        if case .message(let packet) = complete {
          reached.insert("complete")
          promise(shortened == complete, "a name that is whole is read in both forms")
          promise([MessagePacket.mark, 0x30 + packet.digit] + packet.text.bytes == name, "no byte is lost")
        } else if case .message(let packet) = shortened {
          reached.insert("shortened")
          promise(
            name.starts(with: [MessagePacket.mark, 0x30 + packet.digit] + packet.text.bytes), "the end alone is lost")
          promise(name.count - packet.text.count - 2 < 4, "one character is lost")
        }
        let text = String(decoding: bytes, as: UTF8.self)
        let clipped = MessageText.clipped(text)
        promise(clipped.utf8.count <= Limits.textBytes, "a text that was cut fits")
        promise(text.utf8.starts(with: clipped.utf8), "the end alone is cut")
        if clipped.utf8.count < text.utf8.count { reached.insert("clipped") }
        return reached
      }),
    Target(
      name: "pblec-beacon",
      seeds: { try PBLECVectors.read().ibeacon.values.map { try Array(Hex.decode($0.adv).dropFirst(5)) } },
      goals: ["read"],
      play: { bytes in
        guard let beacon = taken({ try NotifyBeacon(reading: Array(bytes)[...]) }) else { return [] }
        promise(beacon.data.elementsEqual(bytes), "a beacon is written as it was read")
        return ["read"]
      }),
    Target(
      name: "pblec-ledger",
      seeds: { [NotificationRecord().bytes, [3, 100, 101 - 1, 0, 0, 0x50, 0x29, 2, 0, 1, 0, 2, 0, 3, 0, 4]] },
      goals: ["read"],
      play: { bytes in
        guard var ledger = taken({ try NotificationRecord(reading: Array(bytes)) }) else { return [] }
        promise(taken { try NotificationRecord(reading: ledger.bytes) } == ledger, "a ledger is read as it was written")
        let time = CalendarTime(milliseconds: 1_773_057_600_000, day: CalendarDay(20_521))
        let left = ledger.left(at: time, .zero)
        let told = (0..<120).count { ledger.hear(NotifyBeacon(major: 9, minor: $0), at: time, .zero) == nil }
        promise(told <= left, "no more is told than is left")
        return ["read"]
      }),
    Target(
      name: "pblec-feed",
      seeds: {
        let name = FeedPlay.name(3, "hi")
        let heard: [UInt8] = [0, 1, 60, UInt8(name.count)] + name
        let sent: [UInt8] = [2, 3, 1, 4, 1, 5, 1, 4]
        return [heard + heard, sent + sent, [7, 8, 9, 7, 10, 1, 200], heard + [1, 60, 6] + heard, sent + [11, 6]]
      },
      goals: ["heard", "sent", "dropped", "notified", "beacon", "left the air"],
      play: { bytes in
        var play = FeedPlay()
        var script = Script(bytes)
        while !script.isAtEnd { play.step(&script) }
        return play.reached
      }),
  ]
}

/// An engine, and a script of its events.
private struct FeedPlay {
  private var engine = BroadcastEngine(random: SeededRandom(seed: 9), at: .zero)
  private var now = Instant.zero
  private var time = CalendarTime(milliseconds: 1_773_057_600_000, day: CalendarDay(20_521))
  private var asked: UInt64 = 0
  private var lastStart: Instant?
  private(set) var reached: Set<String> = []

  static func name(_ digit: Int, _ text: String) -> [UInt8] {
    let name = Array("~\(digit)\(text)".utf8)
    return [UInt8(1 + name.count), MessagePacket.completeName] + name
  }

  mutating func step(_ script: inout Script) {
    switch script.byte() % 12 {
    case 0:
      let (address, rssi) = (UInt64(script.byte()), -Int(script.byte()))
      perform(engine.hear(script.value(), from: AdvertiserID(rawValue: address), rssi: rssi, at: now, time: time))
    case 1: now = now.advanced(by: .milliseconds(100 * Int64(script.byte())))
    case 2:
      let text = MessageText(unchecked: [0x61 + script.byte() % 26][...])
      if let sent = taken({ try engine.send(text, at: now) }) { perform(sent.actions) }
    case 3:
      if let actions = taken({ try engine.cancel(UInt64(script.byte()), at: now) }) { perform(actions) }
    case 4: begin(UInt64(script.byte()))
    case 5: perform(engine.handle(.ended(UInt64(script.byte()), wasCutShort: script.flag()), at: now))
    case 6:
      now = max(now, engine.deadline ?? now)
      perform(engine.handle(.timer, at: now))
      promise(engine.deadline.map { $0 > now } ?? true, "the timer does all that is due")
    case 7: if let actions = taken({ try engine.notify(at: now, time: time) }) { perform(actions) }
    case 8: perform(engine.handle(.beaconBegan, at: now))
    case 9: perform(engine.handle(script.flag() ? .beaconEnded : .beaconRefused, at: now))
    case 10:
      time.day = CalendarDay(20_500 + Int(script.byte()))
      let beacon = NotifyBeacon(major: 1, minor: UInt16(script.byte()))
      perform(engine.hear(beacon.bytes, from: AdvertiserID(rawValue: 1), rssi: nil, at: now, time: time))
    default: perform(engine.handle(.refused(UInt64(script.byte()), .noPlace), at: now))
    }
    promise(engine.peersNearby <= Limits.peers && engine.waiting <= Limits.queue, "what is remembered is bounded")
  }

  private mutating func begin(_ number: UInt64) {
    let number = number % 4 == 0 ? number : asked
    let isNew = number == asked && asked > 0
    let before = engine.deadline
    perform(engine.handle(.began(number), at: now))
    guard isNew, before != engine.deadline else { return }
    lastStart = now
  }

  private mutating func perform(_ actions: [BroadcastEngine.Action]) {
    for action in actions {
      switch action {
      case .transmit(let number, _):
        promise(number > asked, "messages go out in their order, each once")
        if let lastStart { promise(lastStart.duration(to: now) >= .seconds(6), "no two begin within 6 s") }
        asked = number
      case .heard: reached.insert("heard")
      case .sent: reached.insert("sent")
      case .dropped: reached.insert("dropped")
      case .notified: reached.insert("notified")
      case .transmitBeacon: reached.insert("beacon")
      case .leaveAir: reached.insert("left the air")
      case .silence, .stopBeacon, .keep: break
      }
    }
  }
}

/// Vectors that serve as seeds.
private struct PBLECVectors: Decodable {
  struct Row: Decodable { let adv: String }
  let packets: [Row]
  let malformed: [String: Row]
  let ibeacon: [String: Row]

  static func read() throws -> PBLECVectors {
    let tests = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    let file = tests.appending(path: "Protocols/PBLECTests/Vectors/pblec.json")
    return try JSONDecoder().decode(PBLECVectors.self, from: Data(contentsOf: file))
  }
}
