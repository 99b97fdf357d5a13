import Common
import Crypto
import TestSupport
import Testing

@testable import Bitchat
@testable import BitchatWire

@Suite("Mesh links and the peers bound to them")
struct LinkTests {
  @Test(
    "If two nodes connect to each other at once, the link made by the smaller ID remains",
    arguments: 0..<Extent.of(5, all: 20))
  func bothConnect(group: UInt64) {
    for seed in (group * 50)..<(group * 50 + 50) {
      var hall = MeshHall(seed: seed)
      hall.latency = 1...200
      hall.add(["ann", "bob"])
      hall.connect(0, 1)
      hall.pass(.milliseconds(Int64(seed % 7) * 30))
      hall.connect(1, 0)
      hall.pass(.seconds(20))
      #expect(hall.links(0, 1).count == 1, "seed \(seed)")
      let smaller = hall.nodes[0].id < hall.nodes[1].id ? 0 : 1
      let left = hall.links(0, 1).first.flatMap { hall.wires[$0]?.ends.0 }
      #expect(left == smaller, "seed \(seed)")
    }
  }

  @Test("Two peers that announce themselves on one link change the link's peer at most twice in 100 announces")
  func fight() throws {
    var hall = MeshHall()
    hall.add(["ann", "bob", "eve"])
    let link = hall.connect(0, 1)
    hall.pass(.seconds(1))
    // Eve's announces arrive over Bob's link as if Eve were there: recorded on a link of hers and replayed.
    let other = hall.connect(0, 2)
    var caught: [[UInt8]] = []
    hall.passes = { bytes, from, _ in
      if from == 2, bytes[1] == MessageType.announce.rawValue, bytes[2] == 7 { caught.append(bytes) }
      return true
    }
    hall.pass(.seconds(50))
    hall.disconnect(other)
    #expect(caught.count >= 2)
    var peers: [PeerID?] = []
    for round in 0..<100 {
      hall.inject(caught[round % caught.count], on: link, to: 0)
      hall.pass(.milliseconds(500))
      peers.append(hall.nodes[0].engine.neighbourhood.links[link]?.peer)
    }
    let changes = zip(peers, peers.dropFirst()).count { $0 != $1 }
    #expect(changes <= 2)
    #expect(hall.nodes[0].engine.counters.refusedBindings > 10)
  }

  @Test(
    "A link with a small MTU gets fragments, and other links get the same packet whole",
    arguments: [20, 120])
  func narrow(frameLimit: Int) throws {
    var hall = MeshHall()
    hall.add(["ann", "bob"])
    hall.connect(0, 1)
    hall.pass(.seconds(2))
    let wide = hall.connect(stranger: Stranger(1), to: 0)
    let narrow = hall.connect(stranger: Stranger(2), to: 0, frameLimit: frameLimit)
    hall.pass(.seconds(1))
    let lines = ["short", LimitStage.text(200), LimitStage.text(700)]
    for line in lines { _ = hall.say(line, at: 0) }
    hall.handle(.announce, at: 0)
    try hall.sendFile(FileTests.content(5000), as: 7, at: 0)
    hall.pass(.seconds(10))
    #expect(hall.nodes[1].heard.map(\.text) == lines && hall.nodes[1].files.count == 1)
    func sent(_ type: MessageType, on link: LinkID) -> Int {
      (hall.nodes[0].sent[link] ?? []).count { $0[1] == type.rawValue }
    }
    #expect(sent(.message, on: wide) == 2 && sent(.announce, on: wide) >= 2 && sent(.fragment, on: wide) == 13)
    #expect((hall.nodes[0].sent[narrow] ?? []).allSatisfy { $0.count <= frameLimit })
    #expect((sent(.fragment, on: narrow) > 4) == (frameLimit == 120))
    #expect((hall.nodes[0].engine.counters.unsendable > 0) == (frameLimit == 20))
  }

  @Test("A packet that is too long for one link is sent whole to the links that can carry it")
  func middling() {
    var hall = MeshHall()
    hall.add([LimitStage.text(60)])
    let (sender, wide, middling) = (Stranger(1), Stranger(2), Stranger(3))
    let from = hall.connect(stranger: sender, to: 0)
    let links = [hall.connect(stranger: wide, to: 0), hall.connect(stranger: middling, to: 0, frameLimit: 182)]
    hall.pass(.seconds(1))
    func sent(_ type: MessageType, on link: LinkID) -> [[UInt8]] {
      (hall.nodes[0].sent[link] ?? []).filter { $0[1] == type.rawValue }
    }
    let known = links.map { sent(.announce, on: $0).count }
    hall.handle(.announce, at: 0)
    _ = hall.say(LimitStage.text(300), at: 0)
    hall.pass(.seconds(1))
    #expect(sent(.announce, on: links[0]).count == known[0] + 1 && sent(.message, on: links[0]).count == 1)
    #expect(sent(.fragment, on: links[0]).isEmpty && sent(.fragment, on: links[1]).count > 3)
    #expect(sent(.announce, on: links[1]).count == known[1] && sent(.message, on: links[1]).isEmpty)

    // A second link does not take fragments at all.
    hall.connect(stranger: Stranger(4), to: 0, frameLimit: 20)
    hall.pass(.seconds(1))
    let cut = sent(.fragment, on: links[1]).count
    hall.inject(sender.line(LimitStage.text(250), at: hall.time), on: from, to: 0)
    hall.pass(.seconds(1))
    #expect(sent(.message, on: links[0]).count == 2 && sent(.fragment, on: links[1]).count > cut + 1)

    let before = hall.nodes[0].engine.counters.unsendable
    let fragment = sender.fragment(7, 0, of: 3, Array(repeating: 9, count: 460), at: hall.time)
    let others = links.map { sent(.fragment, on: $0).count }
    hall.inject(fragment, on: from, to: 0)
    hall.pass(.seconds(1))
    #expect(sent(.fragment, on: links[0]).count == others[0] + 1 && sent(.fragment, on: links[1]).count == others[1])
    #expect(hall.nodes[0].engine.counters.unsendable == before + 2)
    #expect(
      links.allSatisfy { link in
        (hall.nodes[0].sent[link] ?? []).allSatisfy { $0.count <= (link == links[0] ? 512 : 182) }
      })
  }

  @Test("Padded packets are cut to fit each link's frame limit", arguments: [[100, 100], [100, 512], [512, 512]])
  func padded(frameLimits: [Int]) {
    var hall = MeshHall()
    hall.add(["ann"]) { $0.padsAll = true }
    let links = frameLimits.enumerated().map { place, limit in
      hall.connect(stranger: Stranger(UInt64(place + 1)), to: 0, frameLimit: limit)
    }
    hall.pass(.seconds(1))
    for (place, link) in links.enumerated() {
      let before = hall.nodes[0].sent[link]?.count ?? 0
      let ping = Stranger(UInt64(place + 1)).packet(
        .ping, PingPayload(nonce: 5).bytes, at: hall.time, to: hall.nodes[0].id, isSigned: false)
      hall.inject(ping, on: link, to: 0)
      let sizes = (hall.nodes[0].sent[link] ?? []).dropFirst(before).map(\.count)
      #expect(sizes == [frameLimits[place] == 512 ? 256 : 39])
    }
    let unsendable = hall.nodes[0].engine.counters.unsendable
    _ = hall.say("hi", at: 0)
    for (place, link) in links.enumerated() {
      let line = (hall.nodes[0].sent[link] ?? []).last { $0[1] == MessageType.message.rawValue }
      #expect(line.map { frameLimits[place] == 512 ? $0.count == 256 : $0.count <= 100 } ?? (frameLimits[place] == 100))
    }
    #expect(hall.nodes[0].engine.counters.unsendable == unsendable)
  }

  @Test("A link whose MTU becomes large enough for an announce gets one announce")
  func widened() {
    var hall = MeshHall()
    hall.add(["ann"])
    let link = hall.connect(to: 0, frameLimit: 20)
    func announces() -> Int { (hall.nodes[0].sent[link] ?? []).count { $0[1] == MessageType.announce.rawValue } }
    #expect(announces() == 0)
    for limit in [509, 512, 182] { hall.handle(.linkChanged(link, frameLimit: limit), at: 0) }
    #expect(announces() == 1)
  }

  @Test("A link without an announce of its peer is cut after 15 s")
  func silent() {
    var hall = MeshHall()
    hall.add(["ann"])
    let link = LinkID(77)
    hall.handle(.linkOpened(link, frameLimit: 512, isOurs: false), at: 0)
    hall.pass(.milliseconds(14_999))
    #expect(hall.nodes[0].cuts.isEmpty)
    hall.pass(.milliseconds(1))
    #expect(hall.nodes[0].cuts.map(\.0) == [link])
    #expect(hall.nodes[0].cuts.map(\.1) == [.noAnnounce])
  }

  @Test(
    "A link whose peer has left has no bound peer, and is cut after 15 s unless the peer returns",
    arguments: [true, false])
  func left(comesBack: Bool) throws {
    var hall = MeshHall()
    hall.add(["ann"])
    let eve = Stranger(1)
    let link = hall.connect(stranger: eve, to: 0)
    // The timeout for the link's first announce is over.
    hall.pass(.seconds(20))
    #expect(hall.nodes[0].engine.neighbours == [eve.id])
    hall.inject(eve.packet(.leave, [], at: hall.time), on: link, to: 0)
    #expect(hall.nodes[0].engine.neighbours.isEmpty && hall.nodes[0].engine.state == .alone)
    hall.pass(.milliseconds(14_000))
    // A different peer cannot bind the link so soon; the peer itself can.
    hall.inject(Stranger(2).announce(at: hall.time), on: link, to: 0)
    #expect(hall.nodes[0].engine.counters.refusedBindings == 1 && hall.nodes[0].engine.neighbours.isEmpty)
    if comesBack { hall.inject(eve.announce(at: hall.time), on: link, to: 0) }
    let neighbours: Set<PeerID> = comesBack ? [eve.id] : []
    #expect(hall.nodes[0].engine.neighbours == neighbours && hall.nodes[0].cuts.isEmpty)
    hall.pass(.milliseconds(1_000))
    let reasons = hall.nodes[0].cuts.map(\.1)
    #expect(reasons == (comesBack ? [] : [.left]))
  }

  @Test(
    "A neighbour that sends nothing is disconnected after 330 s, or in strict mode after 60 s",
    arguments: [(false, 330), (true, 60)])
  func silentPeer(isStrict: Bool, seconds: Int) {
    var hall = MeshHall()
    hall.add(["ann", "bob"]) { $0.isMonitorStrict = isStrict }
    hall.connect(0, 1)
    hall.pass(.seconds(1))
    hall.passes = { _, _, _ in false }
    // The last packet under way has arrived by now.
    hall.pass(.milliseconds(100))
    hall.pass(.seconds(seconds - 3))
    #expect(hall.nodes[0].cuts.isEmpty)
    hall.pass(.seconds(4))
    #expect(hall.nodes.flatMap(\.cuts).map(\.1).contains(.silent))
  }

  @Test("The 101st malformed frame within 10 s cuts the link")
  func garbage() {
    var hall = MeshHall()
    hall.add(["ann", "bob"])
    let link = hall.connect(0, 1)
    hall.pass(.seconds(1))
    for _ in 0..<100 { hall.inject([9, 9, 9], on: link, to: 0) }
    #expect(hall.nodes[0].cuts.isEmpty)
    #expect(hall.nodes[0].engine.counters.malformed["TooShort"] == 100)
    hall.inject([9, 9, 9], on: link, to: 0)
    #expect(hall.nodes[0].cuts.map(\.1) == [.garbage])
  }

  @Test("A node whose clock is not trusted sends nothing until two neighbours confirm the time")
  func clock() {
    var hall = MeshHall()
    hall.add(["ann", "bob", "cem"])
    hall.handle(.clock(isTrusted: false), at: 0)
    #expect(hall.nodes[0].engine.state == .waitingForClock)
    var spoken = 0
    hall.passes = { _, from, _ in
      if from == 0 { spoken += 1 }
      return true
    }
    hall.connect(0, 1)
    hall.pass(.seconds(10))
    #expect(spoken == 0)
    let said = hall.say("hello", at: 0)
    #expect(said == nil)
    hall.connect(0, 2)
    hall.pass(.seconds(10))
    #expect(spoken > 0)
    #expect(hall.nodes[0].engine.state == .connected)
  }

  @Test("Nodes whose clocks differ by 121 s ignore and count each other's packets")
  func wrongClock() {
    var hall = MeshHall()
    hall.add(["ann", "bob"])
    hall.nodes[1].clockError = 121_000
    hall.connect(0, 1)
    hall.pass(.seconds(10))
    #expect(hall.nodes[0].engine.peers.isEmpty)
    #expect(hall.nodes[0].engine.counters.clock > 0)
    hall = MeshHall()
    hall.add(["ann", "bob"])
    hall.nodes[1].clockError = 119_000
    hall.connect(0, 1)
    hall.pass(.seconds(10))
    #expect(hall.nodes[0].engine.peers.count == 1)
  }

  @Test("Neighbours get an announce as soon as the node's clock is trusted")
  func clockComesRight() {
    var hall = MeshHall()
    hall.add(["ann"])
    hall.handle(.clock(isTrusted: false), at: 0)
    let link = hall.connect(stranger: Stranger(1), to: 0)
    hall.pass(.seconds(3))
    #expect(hall.nodes[0].sent[link] == nil)
    hall.handle(.clock(isTrusted: true), at: 0)
    hall.pass(.zero)
    #expect(hall.nodes[0].sent[link]?.first?[1] == MessageType.announce.rawValue)
  }
}
