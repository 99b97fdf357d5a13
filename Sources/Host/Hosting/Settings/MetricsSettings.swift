import Config
import Glibc

/// Section `[Metrics]`: the file with the metrics of the service.
public struct MetricsSettings: SettingsSection {
  /// The path of the file; nil means `metrics.prom` in `$RUNTIME_DIRECTORY`.
  public var file: String?
  /// Time between two writes; zero writes none.
  public var interval = Duration.seconds(15)

  public init() {}

  /// The path of the file; nil if none is set, and the service has no runtime directory.
  ///
  /// - Parameter environment: returns the value of an environment variable.
  public func path(
    environment: (String) -> String? = { name in getenv(name).map { String(cString: $0) } }
  ) -> String? {
    if let file { return file }
    let folder = environment("RUNTIME_DIRECTORY")?.split(separator: ":").first
    return folder.map { "\($0)/metrics.prom" }
  }

  public static let section = "Metrics"
  public static let keys: [Setting<MetricsSettings>] = [
    Setting(
      "File", \.file, .optional(.path()), .onRestart,
      "The file for the metrics, in the text format of Prometheus, for the textfile collector of node_exporter. Its "
        + "folder must be writable for the service. Empty: metrics.prom in the runtime directory that systemd creates "
        + "for the service (/run/earshot); without one no file is written."),
    Setting(
      "Interval", \.interval, .duration(.zero ... .seconds(3_600)), .onReload,
      "Interval at which the file is written. 0s: it is not written."),
  ]
}
