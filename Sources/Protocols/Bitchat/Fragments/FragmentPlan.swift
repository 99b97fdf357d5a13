import Bytes

/// A packet cut into packets that a link takes. Facts: bitchat.md section 7, bitchat-delta.md section 3.1.
///
/// The fragments have the packet's sender, recipient, timestamp, time to live, route and mark of an answer; they are of
/// version 1, or 2 where there is a route, and have no signature. Fragments of 10 and 11 have slices of the padded packet.
public struct FragmentPlan: Hashable, Sendable {
  public let fragments: [Packet]

  /// Bytes of each slice but the last of a file for everybody, on links as wide as they get with the older BlueZ.
  public static let olderSlice = Limits.olderFrameBytes - 43

  /// The longest content of a file that the Android app puts together.
  ///
  /// - Parameter sliceBytes: of each slice, on the links of now.
  public static func longestForAndroid(sliceBytes: Int = olderSlice) -> Int {
    longest(in: Limits.fragmentsForAndroid, sliceBytes)
  }

  /// The longest content of a file that is with an iPhone before the iOS app gives it up.
  public static func longestForIOS(sliceBytes: Int = olderSlice) -> Int {
    longest(in: Limits.fragmentsForIOS, sliceBytes)
  }

  private static func longest(in fragments: Int, _ sliceBytes: Int) -> Int {
    fragments * min(sliceBytes, olderSlice) - aroundContent
  }

  /// Bytes that a file's packet may have beside the content: 32 of header, 64 of signature, 25 of Noise, 18 of the records, 57 of a route
  /// with seven peers, and some 300 for name and type.
  private static let aroundContent = 500

  /// Cuts the bytes of a packet, as they came or as they would be sent. Nil if the link is too narrow for fragments, or there
  /// would be more than 10,000.
  ///
  /// - Parameters:
  ///   - frameLimit: bytes that the link takes in one PDU, the narrowest of those that the fragments go to.
  ///   - recipient: whom the fragments are for, if the packet does not say it.
  public init?(_ packet: PacketView, id: FragmentID, frameLimit: Int, recipient: PeerID? = nil) {
    self.init(FragmentCutter(packet, id: id, frameLimit: frameLimit, recipient: recipient))
  }

  init?(_ packet: PacketView, id: FragmentID, sliceSize: Int, recipient: PeerID?) {
    self.init(FragmentCutter(packet, id: id, sliceSize: sliceSize, recipient: recipient))
  }

  private init?(_ cutter: FragmentCutter?) {
    guard let cutter else { return nil }
    fragments = (0..<cutter.count).compactMap { cutter.fragment($0) }
  }

  /// Bytes of each slice but the last; nil if the link is too narrow for fragments.
  ///
  /// What stands around a slice is 35 bytes, 43 with a recipient. The iOS app reckons with 42 in both cases, so with a
  /// recipient its frames are one byte longer than the link takes; ours are not. With a route it keeps 16 bytes in reserve,
  /// and so do we.
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
