import Air
import Common
import Loop
import Radio
import TestSupport
import Testing

@testable import Sharing

@Suite("A radio shared by two services")
struct SharedRadioTests {
  init() { EventLoop.shared.runInBackground() }

  static let id = CharacteristicID(service: BluetoothUUID(short: 1), characteristic: BluetoothUUID(short: 2))

  /// Two services on one radio; the first needs a link.
  @LoopActor
  final class House {
    let time = VirtualTime()
    let driver = RecordingDriver()
    let radio: SharedRadio
    let kiosk: Tenant
    let chat: Tenant
    let (kioskEar, chatEar) = (RecordingDelegate(), RecordingDelegate())
    var (kioskServer, chatServer): (SharedServer?, SharedServer?)

    init(links: Int = 8) {
      var limits = LinkLimits()
      limits.links = links
      radio = SharedRadio(driver: driver, scheduler: time, limits: limits)
      kiosk = radio.tenant("kiosk", share: LinkShare(needs: 1, may: 4, priority: 10))
      chat = radio.tenant("chat", share: LinkShare(needs: 0, may: 8, priority: 1))
      let application = GATTApplication(services: [])
      kioskServer = kiosk.serve(application, delegate: kioskEar) as? SharedServer
      chatServer = chat.serve(application, delegate: chatEar) as? SharedServer
      _ = driver.takeOrders()
    }

    func write(_ value: [UInt8], to server: SharedServer?, on link: UInt64) throws(ATTError) {
      guard let server else { return }
      try radio.written(value, to: id, of: server.id, on: LinkID(link))
    }

    /// Opens a link for each service: the first is the chat's, the second the kiosk's.
    func linkEach() throws {
      for (number, server) in [(1, chatServer), (2, kioskServer)] as [(UInt64, SharedServer?)] {
        driver.linkUp(number)
        try write([1], to: server, on: number)
      }
    }

    func turn() { time.advance(by: .zero) }
  }

  @Test("Services read the radio status that the driver reported last")
  @LoopActor
  func status() async throws {
    let house = House()
    var told: [RadioStatus] = []
    let watch = house.chat.onStatus { told.append($0) }
    house.driver.status = RadioStatus(.waiting)
    #expect(house.chat.status.state == .ready && told.isEmpty)
    house.radio.statusChanged(house.driver.status)
    #expect(house.chat.status.state == .waiting && told.map(\.state) == [.waiting])
    house.driver.status = RadioStatus(.ready)
    #expect(house.chat.status.state == .waiting)
    withExtendedLifetime(watch) {}
  }

  @Test("Each service is notified of the links that use it, with their start times, and of no others")
  @LoopActor
  func owners() async throws {
    let house = House()
    house.time.advance(by: .seconds(1))
    house.driver.linkUp(1, since: house.time.now)
    house.radio.linkChanged(LinkID(1), mtu: 185)
    house.time.advance(by: .seconds(2))
    try house.write([7], to: house.chatServer, on: 1)
    #expect(house.chatEar.takeHeard() == ["opened 1, up since 1000", "MTU of 1: 185", "1 wrote [7]"])
    house.radio.linkChanged(LinkID(1), mtu: 517)
    house.radio.hasRoom(LinkID(1))
    #expect(house.chatEar.takeHeard() == ["MTU of 1: 517", "room on 1"])
    house.radio.linkDown(LinkID(1))
    house.turn()
    #expect(house.chatEar.takeHeard() == ["closed 1"])
    #expect(house.kioskEar.takeHeard() == [])
  }

  @Test(
    "If a link number is used again at once, the service is first notified once of the old link's end")
  @LoopActor
  func sameNumber() async throws {
    let house = House()
    house.driver.linkUp(1)
    try house.write([1], to: house.chatServer, on: 1)
    house.radio.linkDown(LinkID(1))
    house.driver.linkUp(1)
    try house.write([2], to: house.chatServer, on: 1)
    house.turn()
    let first = ["opened 1, up since 0", "1 wrote [1]", "closed 1"]
    #expect(house.chatEar.takeHeard() == first + ["opened 1, up since 0", "1 wrote [2]"])
    house.radio.linkDown(LinkID(1))
    house.turn()
    #expect(house.chatEar.takeHeard() == ["closed 1"])
  }

  @Test("A radio inhibit is signalled to services of lower priority once when it begins and once when it ends")
  @LoopActor
  func quiet() async throws {
    let house = House()
    var (heardByChat, heardByKiosk): ([Bool], [Bool]) = ([], [])
    let watches = [
      house.chat.onQuiet { heardByChat.append($0) }, house.kiosk.onQuiet { heardByKiosk.append($0) },
    ]
    var requests: [Registration] = [house.kiosk.askForQuiet()]
    #expect(house.chat.isQuietWanted && !house.kiosk.isQuietWanted)
    #expect(heardByChat == [], "it is told at the next turn")
    house.turn()
    requests.append(house.kiosk.askForQuiet())
    house.turn()
    #expect(heardByChat == [true])
    requests.removeLast().cancel()
    house.turn()
    #expect(heardByChat == [true] && house.chat.isQuietWanted)
    requests.removeLast().cancel()
    #expect(!house.chat.isQuietWanted)
    house.turn()
    #expect(heardByChat == [true, false] && heardByKiosk == [])
    // A request that begins and ends within a loop iteration is not a change.
    house.kiosk.askForQuiet().cancel()
    house.turn()
    #expect(heardByChat == [true, false])
    requests.append(house.chat.askForQuiet())
    house.turn()
    #expect(heardByKiosk == [] && !house.kiosk.isQuietWanted)
    withExtendedLifetime((watches, requests)) {}
  }

  @Test("A client's subscription or read makes the service a user of the link; an unsubscription does not")
  @LoopActor
  func otherUses() async throws {
    let house = House()
    let (kiosk, chat) = (try #require(house.kioskServer), try #require(house.chatServer))
    house.driver.linkUp(1)
    house.radio.used(kiosk.id, by: LinkID(1), .unsubscribed(Self.id))
    #expect(house.kioskEar.takeHeard() == [])
    house.radio.used(kiosk.id, by: LinkID(1), .subscribed(Self.id))
    #expect(house.kioskEar.takeHeard() == ["opened 1, up since 0", "1 subscribed"])
    house.radio.used(kiosk.id, by: LinkID(1), .unsubscribed(Self.id))
    #expect(house.kioskEar.takeHeard() == ["1 unsubscribed"])
    house.radio.used(chat.id, by: LinkID(1), .read(Self.id))
    #expect(house.chatEar.takeHeard() == ["opened 1, up since 0"])
  }

  @Test("A service's refusal of a write is sent as the answer to the write")
  @LoopActor
  func refusal() async throws {
    let house = House()
    house.driver.linkUp(1)
    house.chatEar.refusal = .busy
    let error = caught(ATTError.self) { try house.write([1], to: house.chatServer, on: 1) }
    #expect(error == .busy)
  }

  @Test(
    "A closed application gets no further clients")
  @LoopActor
  func closedMeanwhile() async throws {
    let house = House()
    house.driver.linkUp(1)
    let closed = try #require(house.chatServer)
    closed.close()
    let error = caught(ATTError.self) { try house.write([1], to: closed, on: 1) }
    #expect(error == .unlikely)
    house.radio.used(closed.id, by: LinkID(1), .subscribed(Self.id))
    try house.write([2], to: house.kioskServer, on: 1)
    _ = house.driver.takeOrders()
    house.kioskServer?.disconnect(LinkID(1))
    #expect(house.driver.takeOrders() == ["cut 1"])
  }

  @Test("`disconnect` ends a service's use of a link, and the link is cut when no service uses it")
  @LoopActor
  func lastOneCuts() async throws {
    let house = House()
    house.driver.linkUp(1)
    try house.write([1], to: house.chatServer, on: 1)
    try house.write([2], to: house.kioskServer, on: 1)
    _ = (house.chatEar.takeHeard(), house.kioskEar.takeHeard())
    house.kioskServer?.disconnect(LinkID(1))
    #expect(house.kioskEar.takeHeard() == [], "nothing is told from within the call")
    house.turn()
    #expect(house.kioskEar.takeHeard() == ["closed 1"])
    #expect(house.driver.takeOrders() == [])
    house.chatServer?.disconnect(LinkID(1))
    #expect(house.driver.takeOrders() == ["cut 1"])
    // While it closes, the last user still receives from its peer, and no other service does.
    try house.write([3], to: house.chatServer, on: 1)
    let error = caught(ATTError.self) { try house.write([4], to: house.kioskServer, on: 1) }
    #expect(error == .unlikely)
    house.radio.linkDown(LinkID(1))
    house.turn()
    #expect(house.chatEar.takeHeard() == ["1 wrote [3]", "closed 1"])
    #expect(house.kioskEar.takeHeard() == [])
  }

  @Test("A service that closes its application gets no more events and releases its links")
  @LoopActor
  func closing() async throws {
    let house = House()
    house.driver.linkUp(1)
    try house.write([1], to: house.chatServer, on: 1)
    _ = house.chatEar.takeHeard()
    house.chatServer = nil
    #expect(house.driver.takeOrders() == ["stop serving", "cut 1"])
    house.radio.linkDown(LinkID(1))
    house.turn()
    #expect(house.chatEar.takeHeard() == [])
  }

  @Test("A peer that connects and uses no application is disconnected after 10 s")
  @LoopActor
  func silence() async throws {
    let house = House()
    house.driver.linkUp(1)
    house.driver.linkUp(2)
    house.driver.linkUp(3)
    house.driver.origins = [LinkID(2): .unknown, LinkID(3): .here]
    house.time.advance(by: .milliseconds(9999))
    #expect(house.driver.takeOrders() == [])
    house.time.advance(by: .milliseconds(1))
    #expect(house.driver.takeOrders() == ["cut 1"])
    #expect(house.radio.tallies.contains(Tally("UnusedLinks", 3)))
    #expect(house.kioskEar.takeHeard() + house.chatEar.takeHeard() == [])
    // The link has not ended, so it is closed again.
    house.time.advance(by: .seconds(10))
    #expect(house.driver.takeOrders() == ["cut 1"])
    house.radio.linkDown(LinkID(1))
    house.time.advance(by: .seconds(600))
    #expect(house.driver.takeOrders() == [])
  }

  @Test("A service's value is sent only to its own links, and each link has a reported outcome")
  @LoopActor
  func values() async throws {
    let house = House()
    try house.linkEach()
    let server = try #require(house.chatServer)
    #expect(server.notify([9], of: Self.id, to: .link(LinkID(2))) == Delivery(unreachable: [LinkID(2)]))
    #expect(house.driver.takeOrders() == [])
    #expect(
      server.notify([9], of: Self.id, to: .links([LinkID(1), LinkID(2)]))
        == Delivery(accepted: [LinkID(1)], unreachable: [LinkID(2)]))
    house.driver.delivery = { _ in Delivery(full: [LinkID(1)]) }
    #expect(server.notify([9], of: Self.id, to: .link(LinkID(1))) == Delivery(full: [LinkID(1)]))
    // Among the links that overhear a value, the service gets its own, and no others.
    house.driver.delivery = { _ in Delivery(accepted: [LinkID(1)], overheard: [LinkID(1), LinkID(2)]) }
    #expect(
      server.notify([9], of: Self.id, to: .link(LinkID(1)))
        == Delivery(accepted: [LinkID(1)], overheard: [LinkID(1)]))
    #expect(house.driver.takeOrders().count == 3)
  }

  @Test("A service can announce streams only on its own links")
  @LoopActor
  func streams() async throws {
    let house = House()
    try house.linkEach()
    let server = try #require(house.chatServer)
    for number in 1...3 as ClosedRange<UInt64> { server.expectStream(from: LinkID(number)) }
    #expect(house.driver.takeOrders() == ["stream from 1"])
  }

  @Test(
    "A service can set the backlog only of its own links")
  @LoopActor
  func backlogs() async throws {
    let house = House()
    try house.linkEach()
    let link = try house.chat.connect(to: BluetoothAddress(0xC000_0000_0009)) { _ in }
    house.turn()
    let own = try #require(house.driver.links.first?.id)
    house.driver.delegate?.linkUp(DriverLink(id: own, address: BluetoothAddress(0xC000_0000_0009), since: .zero))
    _ = house.driver.takeOrders()
    for id in [LinkID(1), LinkID(2), LinkID(3), own] { house.chat.allow(.long, on: id) }
    house.kiosk.allow(.short, on: LinkID(2))
    #expect(
      house.driver.takeOrders()
        == ["long backlog on 1", "long backlog on \(own.number)", "short backlog on 2"])
    withExtendedLifetime(link) {}
  }

  @Test("A service that is asked to give up a link chooses one of those offered")
  @LoopActor
  func yielding() async throws {
    for choice in [LinkID(2), LinkID(99)] {
      let house = House(links: 4)
      house.kioskServer = nil
      for link in 1...4 as ClosedRange<UInt64> {
        house.driver.linkUp(link)
        try house.write([1], to: house.chatServer, on: link)
      }
      var offered: [LinkID] = []
      house.chat.onLinkWanted { links in
        offered = links
        return choice
      }
      _ = (house.driver.takeOrders(), house.chatEar.takeHeard())
      house.kioskServer = house.kiosk.serve(GATTApplication(services: []), delegate: house.kioskEar) as? SharedServer
      house.turn()
      #expect(offered == [1, 2, 3, 4].map { LinkID($0) })
      let given = choice == LinkID(2) ? 2 : 4
      #expect(house.driver.takeOrders() == ["cut \(given)", "serve"])
      #expect(house.chatEar.takeHeard() == ["closed \(given)"])
    }
  }
}
