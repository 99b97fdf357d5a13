import HCI
import Loop

/// Raw HCI of a test's own: the links that it is told of, and what was sent.
@LoopActor
public final class FakeRawHCI: RawHCI {
  public var links: [HCILink] = []
  public var buffers = LEBuffers(length: 251, count: 8)
  /// What every send and every opening fails with.
  public var failure: HCIError?
  public private(set) var opened: [UInt16] = []
  public let sent = Mailbox<[UInt8]>()

  public init() {}

  public func open(_ index: UInt16) throws(HCIError) {
    if let failure { throw failure }
    opened.append(index)
  }

  public func closeAll() {}

  public func links(of index: UInt16) throws(HCIError) -> [HCILink] { links }

  public func buffers(of index: UInt16) -> LEBuffers { buffers }

  public func send(_ packets: [[UInt8]], to index: UInt16) throws(HCIError) {
    if let failure { throw failure }
    for packet in packets { sent.put(packet) }
  }
}
