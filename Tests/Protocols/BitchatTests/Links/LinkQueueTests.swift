import Testing

@testable import Bitchat
@testable import BitchatWire

@Suite("The send queue of a mesh link")
struct LinkQueueTests {
  private func packet(_ number: UInt8, bytes: Int = 10) -> [UInt8] {
    [number] + [UInt8](repeating: 0, count: bytes - 1)
  }

  private func drained(_ queue: inout LinkQueue) -> [UInt8] {
    var numbers: [UInt8] = []
    while let first = queue.first {
      numbers.append(first[0])
      queue.removeFirst()
    }
    return numbers
  }

  @Test(
    "A public message leaves after its author's announce, and files leave after all announces")
  func announcesOnAnIdleLink() {
    var queue = LinkQueue()
    for number in 0..<6 {
      _ = queue.append(packet(UInt8(number)), as: .announce)
      queue.removeFirst()
    }
    _ = queue.append(packet(10), as: .own)
    _ = queue.append(packet(11), as: .announce)
    let numbers = drained(&queue)
    #expect(numbers == [11, 10])
    _ = queue.append(packet(20), as: .file)
    for number in 0..<6 { _ = queue.append(packet(UInt8(number)), as: .announce) }
    let withFile = drained(&queue)
    #expect(withFile == [0, 1, 2, 3, 4, 5, 20])
  }

  @Test("Sync answers and own packets leave the queue alternately, so that a message overtakes a long answer")
  func answers() {
    var queue = LinkQueue()
    for number in 0..<4 { _ = queue.append(packet(UInt8(number)), as: .syncAnswer) }
    for number in 10..<12 { _ = queue.append(packet(UInt8(number)), as: .own) }
    _ = queue.append(packet(20), as: .fragment)
    let numbers = drained(&queue)
    #expect(numbers == [10, 0, 11, 1, 2, 3, 20])
  }

  @Test("After four announces in a row, one waiting packet of another class leaves the link's queue")
  func announcesInARow() {
    var queue = LinkQueue()
    for number in 0..<10 { _ = queue.append(packet(UInt8(number)), as: .announce) }
    for number in 100..<102 { _ = queue.append(packet(UInt8(number)), as: .own) }
    _ = queue.append(packet(200), as: .fragment)
    let numbers = drained(&queue)
    #expect(numbers == [0, 1, 2, 3, 100, 4, 5, 6, 7, 200, 8, 9, 101])
  }

  @Test("Packets leave the queue in the order of arrival, except that announces go first")
  func order() {
    var queue = LinkQueue()
    let classes: [PacketClass] = [.own, .publicChat, .announce, .handshake, .directed, .announce]
    for (number, kind) in classes.enumerated() { _ = queue.append(packet(UInt8(number)), as: kind) }
    let numbers = drained(&queue)
    #expect(numbers == [2, 5, 0, 1, 3, 4])
    #expect(queue.isEmpty && queue.bytes == 0)
  }

  @Test(
    "A full queue evicts public chat first, then sync answers, handshakes last, and never own packets")
  func dropping() {
    var queue = LinkQueue()
    let order: [PacketClass] = [.publicChat, .syncAnswer, .fragment, .directed, .announce, .handshake]
    _ = queue.append(packet(50), as: .own)
    for (number, kind) in order.reversed().enumerated() { _ = queue.append(packet(UInt8(number)), as: kind) }
    for _ in 0..<LinkQueue.limit - order.count { _ = queue.append(packet(99), as: .handshake) }
    #expect(queue.count == LinkQueue.limit + 1)
    var gone: [PacketClass] = []
    for _ in order { gone += queue.append(packet(99), as: .handshake) }
    #expect(gone == order)
  }

  @Test("A class loses its oldest packet, and a new packet is dropped if no packet of a lower class waits")
  func oldest() {
    var queue = LinkQueue()
    for number in 0..<256 { _ = queue.append(packet(UInt8(number)), as: .publicChat) }
    let dropped = queue.append(packet(7), as: .handshake)
    #expect(dropped == [.publicChat])
    #expect(queue.first?[0] == 1)
    var full = LinkQueue()
    for number in 0..<256 { _ = full.append(packet(UInt8(number)), as: .handshake) }
    let itself = full.append(packet(7), as: .publicChat)
    #expect(itself == [.publicChat])
    let numbers = drained(&full)
    #expect(numbers == Array(0...255))
  }

  @Test(
    "Own packets leave in order and evict none, and are refused above a limit of their own"
  )
  func own() {
    var queue = LinkQueue()
    for _ in 0..<LinkQueue.limit { _ = queue.append(packet(200), as: .publicChat) }
    var dropped: [PacketClass] = []
    var number = 0
    while !queue.isOwnFull {
      dropped += queue.append(packet(UInt8(number % 100)), as: .own)
      number += 1
    }
    #expect(dropped.isEmpty && number > 600)
    while dropped.isEmpty, number < 2000 {
      dropped += queue.append(packet(UInt8(number % 100)), as: .own)
      number += 1
    }
    #expect(dropped == [.own] && number == LinkQueue.ownLimit + 1)
    let own = drained(&queue).filter { $0 < 100 }
    #expect(own == (0..<LinkQueue.ownLimit).map { UInt8($0 % 100) })
  }

  @Test("The class of packets that fills a link's queue most is evicted first, so that no class displaces the others")
  func sharing() {
    for (flood, others) in [
      (PacketClass.fragment, [PacketClass.publicChat, .syncAnswer]), (.publicChat, [.syncAnswer, .fragment]),
      (.syncAnswer, [.publicChat, .fragment]), (.directed, [.publicChat, .syncAnswer, .fragment, .file]),
      (.announce, [.publicChat, .syncAnswer, .fragment, .directed, .own]),
    ] {
      var queue = LinkQueue()
      for kind in others { for _ in 0..<10 { _ = queue.append(packet(1, bytes: 200), as: kind) } }
      var gone: Set<PacketClass> = []
      for _ in 0..<1000 { gone.formUnion(queue.append(packet(2, bytes: 400), as: flood)) }
      #expect(gone == [flood])
      for kind in others { gone.formUnion(queue.append(packet(1, bytes: 200), as: kind)) }
      #expect(gone == [flood])
    }
  }

  @Test("Fragments and other packets leave the queue alternately, whichever waits longer")
  func turns() {
    var queue = LinkQueue()
    for number in 0..<4 { _ = queue.append(packet(UInt8(number)), as: .fragment) }
    for number in 4..<6 { _ = queue.append(packet(UInt8(number)), as: .publicChat) }
    let numbers = drained(&queue)
    #expect(numbers == [4, 0, 5, 1, 2, 3])
    _ = queue.append(packet(6), as: .fragment)
    queue.removeFirst()
    _ = queue.append(packet(7), as: .fragment)
    _ = queue.append(packet(8), as: .own)
    let after = drained(&queue)
    #expect(after == [8, 7])
  }

  @Test("A link's send queue holds at most 64 KiB")
  func bytes() {
    var queue = LinkQueue()
    for _ in 0..<128 { _ = queue.append(packet(1, bytes: 512), as: .fragment) }
    #expect(queue.bytes == LinkQueue.byteLimit)
    let dropped = queue.append(packet(2, bytes: 513), as: .handshake)
    #expect(dropped == [.fragment, .fragment])
    #expect(queue.bytes <= LinkQueue.byteLimit)
  }

  @Test("All other packets overtake a file, and files on hold stay in the queue without loss")
  func files() {
    var queue = LinkQueue()
    for number in 0..<3 { _ = queue.append(packet(UInt8(number)), as: .file) }
    for (number, kind) in PacketClass.allCases.enumerated() where kind != .file && kind != .announce {
      _ = queue.append(packet(UInt8(100 + number)), as: kind)
    }
    #expect(queue.next != .file && queue.files == 3)
    queue.holdsFiles = true
    var others = 0
    while queue.first != nil {
      queue.removeFirst()
      others += 1
    }
    #expect(others == PacketClass.allCases.count - 2 && queue.count == 3 && queue.next == nil)
    queue.holdsFiles = false
    let numbers = drained(&queue)
    #expect(numbers == [0, 1, 2])
    #expect(queue.isEmpty && queue.bytes == 0)
  }

  @Test("Files that are no longer wanted are removed from the queue, and other packets keep their order")
  func removed() {
    var queue = LinkQueue()
    for number in 0..<4 { _ = queue.append(packet(UInt8(number)), as: .file) }
    for number in 4..<8 { _ = queue.append(packet(UInt8(number)), as: .syncAnswer) }
    _ = queue.append(packet(2), as: .own)
    queue.removeFiles { $0[0].isMultiple(of: 2) }
    #expect(queue.count == 5 && queue.files == 2)
    let numbers = drained(&queue)
    #expect(numbers == [2, 5, 7, 1, 3])
    #expect(queue.bytes == 0)
  }
}
