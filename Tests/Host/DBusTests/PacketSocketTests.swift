import Common
import DBus
import Glibc
import Loop
import TestSupport
import Testing

@Suite("Packet sockets passed over D-Bus")
struct PacketSocketTests {
  init() { EventLoop.shared.runInBackground() }

  /// Creates a pair of packet sockets whose ends are both in this process.
  @LoopActor
  private func pair(buffer: Int? = nil) throws -> (PacketSocket, PacketSocket) {
    let (socket, other) = try PacketSocket.pair(buffer: buffer)
    return (socket, try PacketSocket(owning: other))
  }

  @Test("Packets arrive at the socket's other end complete and in order, including empty ones")
  @LoopActor
  func packets() throws {
    let (near, far) = try pair()
    let packets: [[UInt8]] = [[1], [], [2, 3], [], Array(repeating: 4, count: 512)]
    #expect(far.receive(limit: 512) == .nothing)
    for packet in packets { #expect(near.send(packet) == .sent) }
    for packet in packets { #expect(far.receive(limit: 512) == .packet(packet)) }
    #expect(far.receive(limit: 512) == .nothing)
    #expect(far.send([5]) == .sent)
    #expect(near.receive(limit: 1) == .packet([5]))
    #expect(near.isOpen && far.isOpen)
  }

  @Test("A packet at the size limit is received, a longer one is dropped, and the next is received")
  @LoopActor
  func limit() throws {
    let (near, far) = try pair()
    for count in [4, 5, 0, 1] { #expect(near.send(Array(repeating: 7, count: count)) == .sent) }
    #expect(far.receive(limit: 4) == .packet([7, 7, 7, 7]))
    #expect(far.receive(limit: 4) == .tooLong)
    #expect(far.receive(limit: 0) == .packet([]))
    #expect(far.receive(limit: 0) == .tooLong)
    #expect(far.receive(limit: 0) == .nothing)
  }

  @Test(
    "At most the requested number of packets is received, in order, and the end is reported last"
  )
  @LoopActor
  func several() throws {
    let (near, far) = try pair()
    #expect(far.receive(limit: 4, upTo: 32) == [])
    let packets: [[UInt8]] = [[1], [], Array(repeating: 2, count: 600), [3, 3, 3, 3], [4, 4, 4, 4, 4]]
    for packet in packets + [[5], [6]] { #expect(near.send(packet) == .sent) }
    #expect(far.receive(limit: 4, upTo: 2) == [.packet([1]), .packet([])])
    #expect(far.receive(limit: 4, upTo: 3) == [.tooLong, .packet([3, 3, 3, 3]), .tooLong])
    for _ in 0..<40 { #expect(near.send([7]) == .sent) }
    #expect(
      far.receive(limit: 4, upTo: 32) == [.packet([5]), .packet([6])] + Array(repeating: .packet([7]), count: 30))
    #expect(far.send([8]) == .sent, "never taken: the kernel reports a reset connection for it")
    near.close()
    #expect(far.receive(limit: 4, upTo: 32) == Array(repeating: .packet([7]), count: 10) + [.closed])
    #expect(far.receive(limit: 4, upTo: 32) == [.closed])
    far.close()
    #expect(far.receive(limit: 4, upTo: 32) == [.closed])
  }

  @Test("A packet that was not received is reported again in each loop iteration")
  @LoopActor
  func reading() async throws {
    let (near, far) = try pair()
    let got = Mailbox<PacketSocket.Arrival>()
    var calls = 0
    #expect(near.send([1]) == .sent)
    #expect(near.send([2]) == .sent)
    far.onReadable = {
      calls += 1
      if calls > 1 { got.put(far.receive(limit: 9)) }
    }
    #expect(try await got.next() == .packet([1]))
    #expect(try await got.next() == .packet([2]))
    #expect(calls == 3)
    #expect(near.send([3]) == .sent)
    #expect(try await got.next() == .packet([3]))
    far.onReadable = nil
    #expect(near.send([4]) == .sent)
    far.onReadable = { got.put(far.receive(limit: 9)) }
    #expect(try await got.next() == .packet([4]))
    #expect(got.all.count == 4 && !got.all.contains(.nothing))
    far.close()
  }

  /// Sends packets of one byte each.
  @LoopActor
  private func send(_ bytes: UInt8..., from near: PacketSocket) {
    for byte in bytes { #expect(near.send([byte]) == .sent) }
  }

  /// The packets that `far` receives, up to four per loop iteration, with the iterations' moments.
  ///
  /// - Parameter body: called in each iteration.
  @LoopActor
  private func turns(
    of far: PacketSocket, _ body: @escaping @LoopActor ([UInt8]) -> Void = { _ in }
  ) -> Mailbox<(packets: [UInt8], time: Instant)> {
    let turns = Mailbox<(packets: [UInt8], time: Instant)>()
    far.onReadable = {
      let bytes = far.receive(limit: 1, upTo: 4).flatMap { arrival -> [UInt8] in
        if case .packet(let packet) = arrival { packet } else { [] }
      }
      turns.put((bytes, EventLoop.shared.now))
      body(bytes)
    }
    return turns
  }

  @Test("Releasing a closed socket does not affect a new socket with the same descriptor number")
  @LoopActor
  func numbers() async throws {
    var old: PacketSocket? = try pair().0
    old?.onReadable = {}
    old?.close()
    // The kernel assigns the lowest free descriptor.
    let (near, far) = try pair()
    let turns = turns(of: near)
    old = nil
    #expect(far.send([1]) == .sent)
    #expect(try await turns.next().packets == [1])
    #expect(old == nil)
  }

  @Test("After several packets at once, the next are reported only after the gathering time; after one, at once")
  @LoopActor
  func gathering() async throws {
    let (near, far) = try pair()
    let time = Duration.milliseconds(20)
    far.gatheringTime = time
    // Without the two earlier packets, 4 alone would be delivered.
    let turns = turns(of: far) { if $0 == [2, 3] { EventLoop.shared.soon { send(4, from: near) } } }
    send(1, from: near)
    #expect(try await turns.next().packets == [1])
    send(2, 3, from: near)
    let several = try await turns.next()
    let gathered = try await turns.next()
    #expect((several.packets, gathered.packets) == ([2, 3], [4]))
    #expect(gathered.time >= several.time.advanced(by: time))
    send(5, from: near)
    #expect(try await turns.next().packets == [5], "the loop watches again")
    #expect(turns.all.count == 4)
    far.close()
  }

  @Test("While several packets arrive in each gathering time, each next batch waits for the gathering time")
  @LoopActor
  func gatheringAgain() async throws {
    let (near, far) = try pair()
    let time = Duration.milliseconds(5)
    far.gatheringTime = time
    let turns = turns(of: far) { if let last = $0.last, last < 6 { send(last + 1, last + 2, from: near) } }
    send(1, 2, from: near)
    var before: Instant?
    for packets: [UInt8] in [[1, 2], [3, 4], [5, 6], []] {
      let turn = try await turns.next()
      #expect(turn.packets == packets)
      if let before { #expect(turn.time >= before.advanced(by: time)) }
      before = turn.time
    }
    send(9, from: near)
    #expect(try await turns.next().packets == [9])
    #expect(turns.all.count == 5)
    far.close()
  }

  @Test("Packets beyond the requested number, single packets and the end are reported without a gathering time")
  @LoopActor
  func gatheringForLong() async throws {
    let (near, far) = try pair()
    far.gatheringTime = .seconds(3600)
    let turns = turns(of: far)
    send(0, 1, 2, 3, 4, 5, 6, 7, 8, from: near)
    for packets: [UInt8] in [[0, 1, 2, 3], [4, 5, 6, 7], [8]] { #expect(try await turns.next().packets == packets) }
    send(9, from: near)
    #expect(try await turns.next().packets == [9])
    send(10, 11, from: near)
    #expect(try await turns.next().packets == [10, 11])
    let ends = Mailbox<Int>()
    far.onHangUp = { ends.put(turns.all.count) }
    send(12, 13, from: near)
    near.close()
    #expect(try await turns.next().packets == [12, 13])
    #expect(try await ends.next() == turns.all.count, "the end comes last")
    #expect(turns.all.count == 6)
    far.close()
  }

  enum End: CaseIterable {
    case dropped, hungUp
  }

  @Test(
    "After a socket end is closed, dropped or hung up, gathered packets are not reported",
    arguments: End.allCases)
  @LoopActor
  func gatheringEnded(by end: End) async throws {
    let (near, other) = try PacketSocket.pair()
    var far: PacketSocket? = try PacketSocket(owning: other)
    let time = Duration.milliseconds(5)
    far?.gatheringTime = time
    let (calls, ends) = (Mailbox<Int>(), Mailbox<Bool>())
    far?.onReadable = { [weak far] in calls.put(far?.receive(limit: 1, upTo: 4).count ?? 0) }
    far?.onHangUp = { ends.put(true) }
    send(1, 2, from: near)
    #expect(try await calls.next() == 2)
    send(3, 4, from: near)
    switch end {
    case .dropped: far = nil
    case .hungUp:
      near.close()
      #expect(try await ends.next())
    }
    let before = calls.all
    let later = Mailbox<Bool>()
    let timer = EventLoop.shared.schedule(at: EventLoop.shared.now.advanced(by: time * 2)) { later.put(true) }
    #expect(try await later.next())
    timer.cancel()
    #expect(calls.all == before)
    far?.close()
    near.close()
  }

  @Test("A packet handler that receives nothing is called again in the next loop iteration")
  @LoopActor
  func gatheringNothing() async throws {
    let (near, far) = try pair()
    far.gatheringTime = .seconds(3600)
    send(1, 2, from: near)
    #expect(far.receive(limit: 1, upTo: 3) == [.packet([1]), .packet([2])])
    send(3, from: near)
    let taken = Mailbox<[PacketSocket.Arrival]>()
    var calls = 0
    far.onReadable = {
      calls += 1
      if calls == 3 { taken.put(far.receive(limit: 1, upTo: 2)) }
    }
    #expect(try await taken.next() == [.packet([3])])
    far.close()
  }

  @Test("A socket whose buffer is full refuses packets, loses none, and reports capacity once")
  @LoopActor
  func room() async throws {
    let (near, far) = try pair(buffer: 8192)
    let room = Mailbox<Int>()
    var sent = 0
    near.onRoom = { room.put(sent) }
    func fill() {
      while near.send([UInt8(truncatingIfNeeded: sent)] + Array(repeating: 0, count: 99)) == .sent { sent += 1 }
    }
    fill()
    let first = sent
    #expect(first > 1 && first < 8192 / 100, "the kernel counts its own part of each packet")
    #expect(near.send([]) == .full, "a packet of no bytes needs room, too")
    var received = 0
    func drain() {
      while case .packet(let packet) = far.receive(limit: 100) {
        #expect(packet.first == UInt8(truncatingIfNeeded: received))
        received += 1
      }
    }
    drain()
    #expect(received == first)
    #expect(try await room.next() == first)
    fill()
    #expect(sent == first * 2)
    drain()
    #expect(received == sent)
    #expect(try await room.next() == sent)
    // The loop reports readability and writability together.
    let read = Mailbox<PacketSocket.Arrival>()
    near.onReadable = { read.put(near.receive(limit: 1)) }
    #expect(far.send([5]) == .sent)
    #expect(try await read.next() == .packet([5]))
    #expect(room.all.count == 2, "one call for each time that it was full")
    #expect(near.send(Array(repeating: 0, count: 9000)) == .tooLong)
    #expect(near.send([1]) == .sent)
  }

  @Test(
    "An enlarged socket buffer has capacity at once; a reduced one refuses packets until it has drained"
  )
  @LoopActor
  func anotherBuffer() async throws {
    let (near, far) = try pair(buffer: 8192)
    let room = Mailbox<Int>()
    var (sent, received) = (0, 0)
    near.onRoom = { room.put(sent) }
    func fill() {
      while near.send([UInt8(truncatingIfNeeded: sent)] + Array(repeating: 0, count: 99)) == .sent { sent += 1 }
    }
    func drain(_ count: Int) {
      for _ in 0..<count {
        #expect(
          far.receive(limit: 100) == .packet([UInt8(truncatingIfNeeded: received)] + Array(repeating: 0, count: 99)))
        received += 1
      }
    }
    fill()
    let few = sent
    near.limit(to: 65536)
    #expect(try await room.next() == few)
    fill()
    #expect(sent > few * 4)
    near.limit(to: 8192)
    // The socket still counts as full after its limit was reduced to the amount of unread bytes.
    drain(sent - few)
    #expect(near.send([]) == .full)
    drain(few)
    #expect(try await room.next() == sent)
    let before = sent
    fill()
    #expect(sent == before + few)
    #expect(near.send([]) == .full)
    near.close()
    near.limit(to: 65536)
  }

  @Test("After the peer closes its end, its packets are received first, and then the end once")
  @LoopActor
  func hangUp() async throws {
    let (near, far) = try pair()
    let ends = Mailbox<String>()
    #expect(far.send([1]) == .sent)
    #expect(far.send([]) == .sent)
    #expect(near.send([9]) == .sent, "never taken: the kernel reports a reset connection for it")
    far.close()
    far.close()
    #expect(far.send([2]) == .closed && far.receive(limit: 1) == .closed && !far.isOpen)
    near.onHangUp = { ends.put("hung up") }
    near.onRoom = { ends.put("room") }
    #expect(try await ends.next() == "hung up")
    #expect(!near.isOpen)
    #expect(near.receive(limit: 9) == .packet([1]))
    #expect(near.receive(limit: 9) == .packet([]))
    #expect(near.receive(limit: 9) == .closed)
    #expect(near.send([2]) == .closed)
    // A second report by the loop would happen before this.
    await withCheckedContinuation { done in EventLoop.shared.soon { EventLoop.shared.soon { done.resume() } } }
    #expect(ends.all == ["hung up"])
    near.close()
  }

  @Test("Packets that wait are reported before the end of the socket")
  @LoopActor
  func lastWords() async throws {
    let (near, far) = try pair()
    let seen = Mailbox<String>()
    near.onReadable = {
      while case .packet(let packet) = near.receive(limit: 9) { seen.put("\(packet)") }
    }
    near.onHangUp = { seen.put("end") }
    #expect(far.send([1]) == .sent)
    #expect(far.send([2]) == .sent)
    far.close()
    #expect(try await [seen.next(), seen.next(), seen.next()] == ["[1]", "[2]", "end"])
    near.close()
  }

  @Test("A full socket whose peer closes reports the end, and does not report capacity")
  @LoopActor
  func fullHangUp() async throws {
    let (near, far) = try pair(buffer: 4608)
    let seen = Mailbox<String>()
    near.onRoom = { seen.put("room") }
    near.onHangUp = { seen.put("end") }
    while near.send([1]) == .sent {}
    far.close()
    #expect(try await seen.next() == "end")
    #expect(seen.all == ["end"])
    near.close()
  }

  @Test("A closed or dropped socket calls no handler, and the peer is notified of the end")
  @LoopActor
  func closing() async throws {
    for isDropped in [false, true] {
      var (kept, other): (PacketSocket?, FileDescriptor) = try PacketSocket.pair()
      let far = try PacketSocket(owning: other)
      let ends = Mailbox<String>()
      kept?.onHangUp = { ends.put("near") }
      kept?.onReadable = { ends.put("read") }
      far.onHangUp = { ends.put("far") }
      #expect(far.send([1]) == .sent)
      if !isDropped { kept?.close() }
      kept = nil
      #expect(try await ends.next() == "far")
      #expect(ends.all == ["far"])
      far.close()
    }
  }

  @Test("A file descriptor that is sent with a packet is not received")
  @LoopActor
  func descriptors() throws {
    let (near, other) = try PacketSocket.pair()
    var ends: [Int32] = [-1, -1]
    // Close-on-exec from the beginning: otherwise a child process of another test would hold it open.
    let kind = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
    try #require(socketpair(AF_UNIX, kind, 0, &ends) == 0)
    let (reader, writer) = (FileDescriptor(owning: ends[0]), FileDescriptor(owning: ends[1]))
    #expect(send(writer, along: [1], over: other) == 1)
    writer.close()
    var byte: UInt8 = 0
    #expect(read(reader.raw, &byte, 1) == -1 && errno == EAGAIN, "the packet holds the writer open")
    #expect(near.receive(limit: 9) == .packet([1]))
    #expect(read(reader.raw, &byte, 1) == 0, "there is no writer any more")
  }

  /// Sends a packet with a descriptor attached.
  private func send(_ descriptor: FileDescriptor, along packet: [UInt8], over socket: FileDescriptor) -> Int {
    var packet = packet
    // struct cmsghdr: the length of 16 bytes and a descriptor, SOL_SOCKET, SCM_RIGHTS; padded to 24 bytes.
    let words: [UInt32] = [20, 0, UInt32(SOL_SOCKET), 1, UInt32(bitPattern: descriptor.raw), 0]
    var control = words
    return packet.withUnsafeMutableBytes { bytes in
      control.withUnsafeMutableBytes { control in
        var vector = iovec(iov_base: bytes.baseAddress, iov_len: bytes.count)
        return withUnsafeMutablePointer(to: &vector) { vector in
          var header = msghdr()
          header.msg_iov = vector
          header.msg_iovlen = 1
          header.msg_control = control.baseAddress
          header.msg_controllen = control.count
          return sendmsg(socket.raw, &header, 0)
        }
      }
    }
  }

  @Test("A descriptor that is not a socket is refused with a sentence")
  @LoopActor
  func noSocket() throws {
    let file = try FileDescriptor.sealed([], name: "file")
    let error = caught(DBusError.self) { try PacketSocket(owning: file) }
    #expect(error?.message.contains("not a packet socket") == true)
  }

  @Test("A socket end returned by a D-Bus method exchanges packets, and hangs up when its last copy is closed")
  @LoopActor
  func overTheBus() async throws {
    let table = try await Table()
    defer { table.close() }
    var service: PacketSocket?
    let said = Mailbox<String>()
    let object = table.export(
      Interface(
        Table.interface,
        methods: [
          Method(
            "Acquire", out: [Argument("fd", "h"), Argument("mtu", "q")],
            returning: { (_) throws(DBusError) in
              let (socket, other) = try PacketSocket.pair()
              socket.onReadable = { [unowned socket] in
                if case .packet(let packet) = socket.receive(limit: 512) { said.put("\(packet)") }
              }
              socket.onHangUp = { said.put("hung up") }
              service = socket
              return [.descriptor(other), .uint16(517)]
            })
        ]))
    var answer = try await table.call("Acquire")
    let client = try PacketSocket(owning: try #require(answer.first?.asDescriptor))
    answer = []
    let heard = Mailbox<PacketSocket.Arrival>()
    client.onReadable = { heard.put(client.receive(limit: 512)) }
    #expect(service?.send([1, 2, 3]) == .sent)
    #expect(try await heard.next() == .packet([1, 2, 3]))
    #expect(client.send([4]) == .sent)
    #expect(try await said.next() == "[4]")
    client.close()
    #expect(try await said.next() == "hung up")
    service?.close()
    object.cancel()
  }
}
