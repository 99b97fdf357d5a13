import DBus
import HCI
import Loop

/// Facts about the installed BlueZ and kernel for programs that do not run the radio, such as `earshot doctor`.
public enum BlueZAdvice {
  /// The first release of BlueZ with which the service is tested.
  public static let minimum = BlueZVersion(5, 66)

  /// The sentence about the plugin that reads battery levels, with what to do.
  public static let battery = BlueZLimit.readsBattery

  /// Sentences about what this version and configuration of BlueZ cost, with what to do. The sentence about battery
  /// levels is not among them.
  ///
  /// - Parameter version: nil if it is unknown; the result is then empty.
  public static func limits(_ version: BlueZVersion?, _ configuration: DaemonConfiguration) -> [String] {
    BlueZLimit.sentences(version, configuration, hasManagement: true)
  }

  /// Sentences about what a kernel costs.
  public static func limits(_ kernel: KernelVersion?) -> [String] {
    [KernelRepair.known(kernel).limit, ClassicSafety.known(kernel).shortfall].compactMap(\.self)
  }

  /// Asks systemd whether the running bluetoothd reads battery levels; nil if systemd does not know its command line.
  @LoopActor
  public static func readsBattery(_ bus: BusConnection) async -> Bool? {
    await withCheckedContinuation { (continuation: CheckedContinuation<Bool?, Never>) in
      bus.askForDaemonCommandLine { continuation.resume(returning: $0?.loads(DaemonCommandLine.battery)) }
    }
  }
}
