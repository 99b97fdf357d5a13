import Bytes
import Loop

/// A raw socket that is bound to one controller, and the kernel's information about it. In a program it is an
/// `HCISocket`, in a test a simulated controller that is stricter than a real one.
@LoopActor
public protocol RawSocket: AnyObject {
  /// Sends one packet, including its type. It needs CAP_NET_RAW.
  func send(_ packet: [UInt8]) throws(HCIError)

  /// Receives one packet of at most `limit` bytes, without blocking.
  func receive(limit: Int) -> HCISocket.Arrival

  /// Sets the filter. It needs CAP_NET_RAW: otherwise the kernel silently removes Number Of Completed Packets from the
  /// filter.
  func listen(to filter: HCIFilter) throws(HCIError)

  /// Calls `body` when packets can be received, for the lifetime of the registration.
  func watch(_ body: @escaping @LoopActor () -> Void) -> Registration

  /// The links of the controller `index`, from the kernel's list.
  func links(of index: UInt16) throws(HCIError) -> [HCILink]

  /// The buffers for all data of the controller `index`; nil if the kernel does not report them.
  func sharedBuffers(of index: UInt16) -> LEBuffers?
}

extension HCISocket: RawSocket {
  // HCIGETDEVINFO and HCIGETCONNLIST of <bluetooth/hci.h>.
  private static let getDeviceInformation: UInt = 0x8004_48D3
  private static let getConnectionList: UInt = 0x8004_48D4

  public func links(of index: UInt16) throws(HCIError) -> [HCILink] {
    var bytes = HCILink.question(index)
    try control(Self.getConnectionList, &bytes)
    do throws(WireError) {
      return try HCILink.list(reading: bytes)
    } catch {
      throw .failed("HCIGETCONNLIST: \(error)")
    }
  }

  public func sharedBuffers(of index: UInt16) -> LEBuffers? {
    var bytes = LEBuffers.deviceQuestion(index)
    do throws(HCIError) {
      try control(Self.getDeviceInformation, &bytes)
    } catch {
      return nil
    }
    return (try? LEBuffers.shared(reading: bytes)) ?? nil
  }
}
