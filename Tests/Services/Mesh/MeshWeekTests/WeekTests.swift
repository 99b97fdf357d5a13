import Air
import Bitchat
import BitchatWire
import Common
import Crypto
import Loop
import MeshSupport
import Radio
import TestSupport
import Testing

@testable import Mesh
@testable import MeshStore

/// A street with a node, and 20 people who pass, each under another address every quarter of an hour.
@LoopActor
private final class Street {
  /// Number of records that the node holds at a moment, by kind.
  typealias Held = [String: Int]

  static let people = 20
  static let fileStore = 128 << 10
  private static let quarter = Duration.seconds(15 * 60)
  /// A thousand messages a day, and a hundred.
  static let messagePause = Duration.milliseconds(86_400)
  static let filePause = Duration.seconds(864)
  /// Bytes with the packets of the archive, the log and the database's journal: twice the value measured after a
  /// week.
  static let diskLimit = 6 << 20

  let folder: ScratchFolder
  private let time = VirtualTime()
  let doorstep: Doorstep
  let mesh: MeshService
  private let passers: [Passer]
  private var random = SeededRandom(seed: 9)
  private var quarters = 0
  private var nextMessage = Instant.zero
  private var nextFile = Instant.zero
  private var nextQuarter = Instant.zero
  private var number: UInt32 = 0
  private var addresses: UInt64 = 0
  private(set) var said = 0
  private(set) var sent = 0

  init() throws {
    folder = try ScratchFolder()
    let clock = VirtualWallClock(time)
    let doorstep = Doorstep(time)
    var settings = MeshSettings()
    (settings.nickname, settings.fileStore, settings.archive) = ("node", Self.fileStore, .seconds(3600))
    let keeper = NodeStore(
      directory: folder.path("mesh"), settings: settings.kept, scheduler: time, disk: time, clock: clock
    )
    // A new random source each time: with equal draws the numbers for files would collide.
    var made: UInt64 = 0
    mesh = MeshService(
      radio: doorstep, scheduler: time, settings: settings, keeper: keeper, clock: clock,
      random: {
        made += 1
        return SeededRandom(seed: 4000 + made)
      })
    passers = (0..<Self.people).map { Passer("passer \($0)", seed: UInt64($0) + 100, doorstep, clock) }
    self.doorstep = doorstep
    mesh.start()
  }

  var now: Instant { time.now }
  private var linked: [Passer] { passers.filter(\.isLinked) }

  /// Advances time.
  ///
  /// - Parameter pause: interval between messages.
  /// - Returns: the maximum of records of each kind, sampled at the ends of the quarters of the second half.
  func pass(_ duration: Duration, pause: Duration = messagePause) throws -> Held {
    let (end, half) = (now.advanced(by: duration), now.advanced(by: duration / 2))
    var most: Held = [:]
    while now < end {
      if nextQuarter <= now {
        if now >= half { most.merge(held) { max($0, $1) } }
        moveOn()
        nextQuarter = now.advanced(by: Self.quarter)
      }
      if nextMessage <= now {
        try talk()
        nextMessage = now.advanced(by: pause)
      }
      if nextFile <= now {
        try giveFile()
        nextFile = now.advanced(by: Self.filePause)
      }
      time.advance(by: now.duration(to: min(nextQuarter, nextMessage, nextFile, end)))
    }
    return most
  }

  /// Ends a quarter of an hour: all present passers change their address, some leave, and some arrive.
  private func moveOn() {
    quarters += 1
    for (place, passer) in passers.enumerated() {
      doorstep.go(passer)
      // Each phone is restarted once a day: its own memory is not measured here.
      if quarters % 96 == 4 * place { passer.restart() }
      // Each passer is present for one hour of four, five at a time.
      guard (quarters / 4 + place) % 4 == 0 else { continue }
      addresses += 1
      doorstep.come(
        passer, as: BluetoothAddress(0xC000_0000_0000 | addresses), connects: (place + quarters).isMultiple(of: 2))
    }
  }

  /// Sends a message from the node or a passer, public or private.
  private func talk() throws {
    guard let passer = pick() else { return }
    number += 1
    said += 1
    let text = "message \(number) " + String(repeating: "la ", count: Int(number % 40))
    switch number % 4 {
    case 0: _ = try mesh.messages.say(text)
    case 1: passer.say(text)
    case 2: _ = try mesh.messages.tell(passer.id.description, text)
    default: try passer.tell(text, to: mesh.node.ownID, as: number)
    }
  }

  private func giveFile() throws {
    guard let passer = pick() else { return }
    number += 1
    sent += 1
    let content = random.bytes(1000 + Int(number % 19) * 1000)
    switch sent % 4 {
    case 0: _ = try mesh.files.send(file: content, name: "to all", mime: "", to: "")
    case 1: _ = try mesh.files.send(file: content, name: "to one", mime: "", to: passer.id.description)
    case 2: try passer.send(SharedFile(name: "for all", mime: nil, content: content), to: nil, as: number)
    default: try passer.send(SharedFile(name: "for one", mime: nil, content: content), to: mesh.node.ownID, as: number)
    }
  }

  private func pick() -> Passer? {
    let linked = linked
    return linked.isEmpty ? nil : linked[Int(number) % linked.count]
  }

  /// Bytes of the files of others that the node stores.
  var fileBytes: Int {
    mesh.files.log.numbers.compactMap { mesh.files[$0] }.reduce(0) { $0 + ($1.direction == .incoming ? $1.size : 0) }
  }
  var heard: Int { passers.reduce(0) { $0 + $1.heard + $1.told } }
  var taken: Int { passers.reduce(0) { $0 + $1.files } }

  private var held: Held {
    var held: Held = [
      "links": mesh.links.ports.count, "addresses": mesh.links.search.remembered.advertisers,
      "pauses": mesh.links.search.remembered.pauses,
      "refused": storedProperty("refused", of: mesh.links, as: [BluetoothAddress: Instant].self)?.count ?? .max,
      "marks": mesh.peers.marks.count,
      "unkept": mesh.messages.unkeptCount + mesh.peers.unkeptNotices.count,
      "files": mesh.files.log.numbers.count, "files that wait": mesh.files.waiting, "pings": mesh.pings.count,
    ]
    if let engine = mesh.node.engine {
      let most = engine.holdings
      held["peers"] = most.peers
      held["pins"] = most.pins
      held["announces"] = most.announces
      held["messages for neighbours"] = most.messages
      held["fragments"] = most.fragments
      held["archive"] = most.archiveBytes
      held["assemblies"] = most.assemblies + most.waitingChat
      held["relays"] = most.pendingRelays + most.pacedFrames
    }
    return held
  }

  var diskBytes: Int { get throws { try folder.sizes().values.reduce(0, +) } }
}

@Suite("Long runs of a mesh node", .serialized)
struct WeekTests {
  init() { EventLoop.shared.runInBackground() }

  @Test("Over days in which peers come and go the state of a mesh node does not grow")
  @LoopActor
  func week() throws {
    let street = try Street()
    let part = Extent.of(Duration.seconds(4 * 3600), all: .seconds(86_400))
    let parts = Extent.of(2, all: 7)
    // An empty log would grow to its limits for days, so this log is filled first.
    if Extent.isWhole { _ = try street.pass(.seconds(7200), pause: .seconds(1)) }
    let (said, sent, heard, taken) = (street.said, street.sent, street.heard, street.taken)
    let first = try street.pass(part)
    var heaps = [HeapInUse.bytes]
    var last = first
    for _ in 1..<parts {
      last = try street.pass(part)
      heaps.append(HeapInUse.bytes)
      let disk = try street.diskBytes
      #expect(disk <= Street.diskLimit, "\(disk) bytes on the disk")
    }
    // Records that reach their limit within a day do not reach it in four hours.
    let slow = Extent.of(
      ["pauses": 257, "fragments": 600, "archive": 1 << 20, "files": 130, "messages for neighbours": 1000],
      all: ["pauses": 257, "files": 130])
    for (kind, count) in last {
      let before = first[kind] ?? 0
      let limit = slow[kind] ?? before + max(2, before / 20)
      #expect(count <= limit, "\(kind): \(before) at first, \(count) at the end")
    }
    // The store of files is full, and old files were evicted.
    #expect(street.fileBytes <= Street.fileStore)
    #expect(street.fileBytes >= Street.fileStore / 2, "\(street.fileBytes) bytes of files")
    // There was traffic during that time.
    let time = part * parts
    #expect(Double(street.said - said) >= 0.9 * (time / Street.messagePause), "\(street.said - said) said")
    #expect(Double(street.sent - sent) >= 0.9 * (time / Street.filePause), "\(street.sent - sent) files sent")
    #expect(street.heard - heard >= (street.said - said) / 3 && street.taken - taken >= (street.sent - sent) / 3)
    #expect(first["files"] ?? 0 >= 5 && first["links"] ?? 0 >= 4)
    guard Extent.isWhole else { return }
    let measured = heaps.compactMap(\.self)
    #expect(measured.count == parts, "\(heaps): no figure after one of \(parts) days")
    let day = try #require(measured.first)
    let week = try #require(measured.last)
    print("heap after each day: \(measured) bytes; disk: \(try street.diskBytes) bytes; \(last)")
    #expect(Double(week) <= 1.05 * Double(day), "\(day) bytes after a day, \(week) after a week")
  }
}
