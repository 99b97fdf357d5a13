import Bytes

/// Packet cut into fragments that fit a link. Facts: bitchat.md section 7, bitchat-delta.md section 3.1.
///
/// The fragments have the packet's sender, recipient, timestamp, TTL, route and answer flag, and no signature. They
/// have version 2 if there is a route, otherwise 1. For packet types 10 and 11 the padded packet is cut.
public struct FragmentPlan: Hashable, Sendable {
  public let fragments: [Packet]

  /// Slice size of a public file on the widest links of a BlueZ that loses long writes, in bytes.
  public static let olderSlice = Limits.olderFrameBytes - 43

  /// Longest content of a file, in bytes, that the Android app reassembles.
  ///
  /// - Parameter sliceBytes: slice size on the current links.
  public static func longestForAndroid(sliceBytes: Int = olderSlice) -> Int {
    longest(in: Limits.fragmentsForAndroid, sliceBytes)
  }

  /// Longest content of a file, in bytes, that reaches an iPhone before the iOS app times out.
  public static func longestForIOS(sliceBytes: Int = olderSlice) -> Int {
    longest(in: Limits.fragmentsForIOS, sliceBytes)
  }

  private static func longest(in fragments: Int, _ sliceBytes: Int) -> Int {
    fragments * min(sliceBytes, olderSlice) - aroundContent
  }

  /// Maximum bytes of a file packet beside the content. They are 32 of header, 64 of signature, 25 of Noise, 18 of
  /// records, 57 of a route with seven peers, and about 300 for name and type.
  private static let aroundContent = 500

  /// Cuts the bytes of a packet, as received or as sent. Nil if the link is too narrow for fragments, or more than
  /// 10,000 would be needed.
  ///
  /// - Parameters:
  ///   - frameLimit: smallest frame size, in bytes, of the links that the fragments go to.
  ///   - recipient: recipient of the fragments if the packet names none.
  public init?(_ packet: PacketView, id: FragmentID, frameLimit: Int, recipient: PeerID? = nil) {
    self.init(FragmentCutter(packet, id: id, frameLimit: frameLimit, recipient: recipient))
  }

  package init?(_ packet: PacketView, id: FragmentID, sliceSize: Int, recipient: PeerID?) {
    self.init(FragmentCutter(packet, id: id, sliceSize: sliceSize, recipient: recipient))
  }

  private init?(_ cutter: FragmentCutter?) {
    guard let cutter else { return nil }
    fragments = (0..<cutter.count).compactMap { cutter.fragment($0) }
  }

  /// Slice size in bytes; nil if the link is too narrow for fragments.
  ///
  /// A slice has 35 bytes around it, 43 with a recipient. The iOS app always reserves 42, so its frames with a
  /// recipient exceed the limit by one byte; this node reserves 43. With a route both reserve 16 more bytes.
  public static func sliceSize(frameLimit: Int, hasRecipient: Bool, hops: Int) -> Int? {
    let around =
      switch (hops, hasRecipient) {
      case (0, false): 42
      case (0, true): 43
      default: 16 + 8 + 8 + 1 + 8 * hops + Fragment.headerBytes + 16
      }
    let size = min(Limits.sliceBytes, min(frameLimit, Limits.frameBytes) - around)
    return size < Limits.smallestSlice ? nil : size
  }
}

/// Fragments a packet for a link, one fragment per call. `FragmentPlan` makes them all at once.
package struct FragmentCutter: Sendable {
  package let packet: PacketView
  package let id: FragmentID
  package let sliceSize: Int
  package let recipient: PeerID?
  /// Number of fragments into which the packet is cut.
  package let count: Int

  /// Prepares the fragments of a packet. Nil if the link is too narrow for fragments, or more than 10,000 would be
  /// needed.
  package init?(_ packet: PacketView, id: FragmentID, frameLimit: Int, recipient: PeerID? = nil) {
    let recipient = packet.namedRecipient ?? recipient
    let size = FragmentPlan.sliceSize(frameLimit: frameLimit, hasRecipient: recipient != nil, hops: packet.route.count)
    guard let size else { return nil }
    self.init(packet, id: id, sliceSize: size, recipient: recipient)
  }

  package init?(_ packet: PacketView, id: FragmentID, sliceSize: Int, recipient: PeerID?) {
    count = (packet.bytes.count + sliceSize - 1) / sliceSize
    guard count <= Limits.fragments else { return nil }
    (self.packet, self.id, self.sliceSize, self.recipient) = (packet, id, sliceSize, recipient)
  }

  /// Returns the fragment with this index; nil if there is none.
  ///
  /// - Parameter timestamp: timestamp of the fragment; nil for that of the packet.
  package func fragment(_ index: Int, timestamp: UInt64? = nil) -> Packet? {
    guard (0..<count).contains(index) else { return nil }
    let slice = packet.bytes[(index * sliceSize)...].prefix(sliceSize)
    let fragment = try? Fragment(
      id: id, index: UInt16(index), total: UInt16(count), type: packet.type, slice: Array(slice))
    let route = packet.route
    return fragment.map { fragment in
      Packet(
        version: route.isEmpty ? .v1 : .v2, type: .fragment, timeToLive: packet.timeToLive,
        timestamp: timestamp ?? packet.timestamp, sender: packet.sender, recipient: recipient, route: route,
        payload: fragment.bytes, isSyncAnswer: packet.flags.contains(.syncAnswer))
    }
  }
}
