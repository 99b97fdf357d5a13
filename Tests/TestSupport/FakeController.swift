import Bytes
import HCI
import Loop
import Radio

/// A controller and its kernel, as raw HCI uses them. It is stricter than real ones: packets that a real controller
/// would drop or deliver to the wrong peer are violations here.
@LoopActor
public final class FakeController: RawSocket {
  /// A frame that a peer has received completely.
  public struct Frame: Hashable, Sendable {
    public var peer: BluetoothAddress
    /// The L2CAP payload: opcode, handle and value of a notification.
    public var payload: [UInt8]

    public init(peer: BluetoothAddress, payload: [UInt8]) {
      self.peer = peer
      self.payload = payload
    }
  }

  /// The present links, in the kernel's order.
  public var links: [HCILink] = []
  /// The buffers for LE data, reported in answer to LE Read Buffer Size one loop iteration later.
  public var buffers = LEBuffers(length: 251, count: 8)
  /// Whether the controller reports each packet as completed one loop iteration after it was sent.
  public var completesAlone = true
  /// Whether LE Read Buffer Size is answered.
  public var answersBuffers = true
  /// The error of every send and every look-up.
  public var failure: HCIError?
  public var lookUpFailure: HCIError?
  /// Called after the kernel has made its list of links and before the list is returned.
  public var afterList: @LoopActor () -> Void = {}

  /// The data packets that were sent.
  public let sent = Mailbox<[UInt8]>()
  public let received = Mailbox<Frame>()
  /// Descriptions of packets that a real controller would drop or deliver to the wrong peer.
  public private(set) var violations: [String] = []
  public private(set) var filter = HCIFilter.nothing
  /// Whether CAP_NET_RAW is in effect.
  public private(set) var isPrivileged = false
  public private(set) var lookUps = 0

  /// The handles of the packets in its buffers, oldest first.
  public private(set) var held: [UInt16] = []
  private var frames: [UInt16: [UInt8]] = [:]
  private var arrivals: [HCISocket.Arrival] = []
  private var watch: (@LoopActor () -> Void)?

  public init() {}

  /// The privilege that a test passes to `KernelHCI`: CAP_NET_RAW is in effect while its argument runs.
  public var privilege: RawPrivilege {
    { [weak self] (body) throws(HCIError) in
      self?.isPrivileged = true
      defer { self?.isPrivileged = false }
      try body()
    }
  }

  // MARK: Simulated events

  /// Reports `count` completed packets of the link, removed from the buffers if they are the program's.
  public func complete(_ handle: UInt16, _ count: Int = 1, areOurs: Bool = true) {
    if areOurs {
      for _ in 0..<count { if let place = held.firstIndex(of: handle) { held.remove(at: place) } }
    }
    say([0x13, 5, 1] + Self.bytes(handle) + Self.bytes(UInt16(count)))
  }

  /// Ends a link and drops its packets. Its handle is reused at once for a link with `next`, if given.
  public func end(_ handle: UInt16, thenGivenTo next: BluetoothAddress? = nil) {
    links.removeAll { $0.handle == handle }
    held.removeAll { $0 == handle }
    frames[handle] = nil
    say([0x05, 4, 0] + Self.bytes(handle) + [0x13])
    if let next { links.append(HCILink(handle: handle, address: next)) }
  }

  /// Delivers an HCI event to the program. `event` begins with the event code, without the packet type.
  public func say(_ event: [UInt8]) {
    guard let code = event.first, filter.events.contains(code) else { return }
    let answers = code == 0x0E && event.count > 4 ? UInt16(event[3]) | UInt16(event[4]) << 8 : nil
    if let answers, filter.opcode != 0, filter.opcode != answers { return }
    arrive(.packet([0x04] + event))
  }

  /// Makes the next `receive` of the socket return `arrival`.
  public func arrive(_ arrival: HCISocket.Arrival) {
    arrivals.append(arrival)
    wake()
  }

  private func wake() {
    EventLoop.shared.soon { [weak self] in
      guard let self, !arrivals.isEmpty, let watch else { return }
      watch()
      if !arrivals.isEmpty { wake() }
    }
  }

  // MARK: The socket

  public func receive(limit: Int) -> HCISocket.Arrival {
    guard !arrivals.isEmpty else { return .nothing }
    if case .packet(let bytes) = arrivals[0], bytes.count > limit {
      arrivals.removeFirst()
      return .tooLong
    }
    return arrivals.removeFirst()
  }

  public func listen(to filter: HCIFilter) throws(HCIError) {
    self.filter = filter
    // Like the kernel: hci_sec_filter of net/bluetooth/hci_sock.c.
    if !isPrivileged { self.filter.events.remove(0x13) }
  }

  public func watch(_ body: @escaping @LoopActor () -> Void) -> Registration {
    if watch != nil { violations.append("the socket is watched twice") }
    watch = body
    return Registration { [weak self] in self?.watch = nil }
  }

  public func links(of index: UInt16) throws(HCIError) -> [HCILink] {
    lookUps += 1
    if let lookUpFailure { throw lookUpFailure }
    let list = links
    afterList()
    return list
  }

  public func sharedBuffers(of index: UInt16) -> LEBuffers? { nil }

  public func send(_ packet: [UInt8]) throws(HCIError) {
    guard isPrivileged else { throw .denied("send without CAP_NET_RAW") }
    if let failure { throw failure }
    switch packet.first {
    case 0x01 where packet == [0x01, 0x02, 0x20, 0x00]:
      guard answersBuffers else { return }
      say([0x0E, 7, 1, 0x02, 0x20, 0] + Self.bytes(UInt16(buffers.length)) + [UInt8(buffers.count)])
    case 0x02 where packet.count >= 5: data(packet)
    default: violations.append("a packet that is none: \(packet)")
    }
  }

  private func data(_ packet: [UInt8]) {
    sent.put(packet)
    let head = UInt16(packet[1]) | UInt16(packet[2]) << 8
    let (handle, isFirst, body) = (head & 0x0FFF, head >> 12 == 0, packet.dropFirst(5))
    if Int(packet[3]) | Int(packet[4]) << 8 != body.count { violations.append("a packet with a wrong length") }
    if body.count > buffers.length { violations.append("a packet that is too long") }
    if held.count >= buffers.count { violations.append("a packet without a buffer") }
    guard let link = links.first(where: { $0.handle == handle && $0.isConnected }) else {
      return violations.append("a packet to no link")
    }
    held.append(handle)
    take(body, isFirst, of: link)
    if completesAlone {
      EventLoop.shared.soon { [weak self] in if self?.held.contains(handle) == true { self?.complete(handle) } }
    }
  }

  private func take(_ body: ArraySlice<UInt8>, _ isFirst: Bool, of link: HCILink) {
    if isFirst == (frames[link.handle] != nil) {
      return violations.append(isFirst ? "a frame amid another" : "a continuation of nothing")
    }
    let frame = (frames[link.handle] ?? []) + body
    frames[link.handle] = frame
    guard frame.count >= 4 else { return }
    let length = Int(frame[0]) | Int(frame[1]) << 8
    guard frame.count >= 4 + length else { return }
    frames[link.handle] = nil
    if frame.count > 4 + length || frame[2] != 4 || frame[3] != 0 { violations.append("a frame that is none") }
    received.put(Frame(peer: link.address, payload: Array(frame.dropFirst(4))))
  }

  private static func bytes(_ value: UInt16) -> [UInt8] {
    [UInt8(truncatingIfNeeded: value), UInt8(truncatingIfNeeded: value >> 8)]
  }
}
