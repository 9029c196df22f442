use super::*;
use gemelo_base::Recorder;
use gemelo_device::ExportTable;

/// A user may suspend a command for minutes.
#[test]
fn commands_that_move_volumes_may_be_silent_for_longer_than_clients() {
    let listening = NbdListening {
        addresses: Vec::new(),
        max_open_files: 0,
        log_connections: false,
        server: Server::new(
            Arc::new(ExportTable::new()),
            ServerConfig::default(),
            Arc::new(Recorder::new()),
        ),
        listeners: Mutex::default(),
        memory: Memory::default(),
        monitor: Arc::new(Recorder::new()),
    };
    let ServerConfig { receive_timeout, send_timeout, .. } = listening.transfer_config();
    let clients = ServerConfig::default();
    assert!(receive_timeout.unwrap() >= 10 * clients.receive_timeout.unwrap());
    assert!(send_timeout.unwrap() >= 10 * clients.send_timeout.unwrap());
}
