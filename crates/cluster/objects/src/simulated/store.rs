//! The contents of a simulated store: objects, their keys and locks, and the fences. No time and
//! no faults: calls are applied at once.

use super::call::{Call, CallAnswer};
use super::files::{Bytes, Directory, Keys};
use crate::{Holder, Instance, KeyPage, ObjectError, Result, Update};
use std::collections::BTreeMap;
use std::io;

/// Storage servers: a client's fence reaches each of them by itself.
const SERVERS: u64 = 3;
/// Bytes that a key takes beside its own bytes and its value's.
const KEY_OVERHEAD_BYTES: u64 = 16;

#[derive(Debug)]
struct Object {
    bytes: Bytes,
    keys: Keys,
    locks: BTreeMap<String, Lock>,
}

#[derive(Debug)]
struct Lock {
    holder: Holder,
    expires_ns: u64,
}

/// A call on its way, as the store receives it.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) sender: Instance,
    /// The newest list of fences that the sender knew when it sent the call.
    pub(super) epoch: u64,
    /// `true` if the sender still waits when the answer comes.
    pub(super) has_reply: bool,
    pub(super) object: String,
    pub(super) call: Call,
}

/// The objects, and the fences that each server knows.
#[derive(Debug)]
pub(super) struct Store {
    objects: BTreeMap<String, Object>,
    fences: BTreeMap<Instance, u64>,
    epoch: u64,
    server_epochs: [u64; SERVERS as usize],
    pub(super) capacity_bytes: u64,
    /// The directory whose files the objects are; without one they are in memory.
    directory: Option<Directory>,
}

impl Store {
    pub(super) fn new() -> Self {
        Self {
            directory: None,
            objects: BTreeMap::new(),
            fences: BTreeMap::new(),
            epoch: 0,
            server_epochs: [0; SERVERS as usize],
            capacity_bytes: u64::MAX,
        }
    }

    /// Takes the objects that a directory has, and keeps all objects there.
    pub(super) fn in_directory(directory: &Directory) -> io::Result<Self> {
        let mut store = Self { directory: Some(directory.clone()), ..Self::new() };
        for name in directory.names()? {
            let object = Object { keys: directory.keys(&name)?, ..store.new_object(&name)? };
            store.objects.insert(name, object);
        }
        Ok(store)
    }

    fn new_object(&self, name: &str) -> io::Result<Object> {
        let bytes = match &self.directory {
            Some(directory) => directory.bytes(name)?,
            None => Bytes::Memory(Vec::new()),
        };
        Ok(Object { bytes, keys: Keys::new(), locks: BTreeMap::new() })
    }

    /// Applies a call. A fence works on a server from the moment at which the server learns of it,
    /// by any call of a client that knows it; see [`crate::Locks::fence`].
    pub(super) fn receive(&mut self, message: Message, now_ns: u64) -> Result<CallAnswer> {
        let Message { sender, epoch, object, call, .. } = message;
        if let Call::Fence(instance) | Call::Unfence(instance) = &call {
            self.check_fence(&sender, self.epoch)?;
            self.epoch += 1;
            if matches!(call, Call::Fence(_)) {
                self.fences.entry(instance.clone()).or_insert(self.epoch);
            } else {
                self.fences.remove(instance);
            }
            return Ok(CallAnswer::Epoch(self.epoch));
        }
        let server = server_of(&object);
        let known = self.server_epochs.get(server).copied().unwrap_or(0).max(epoch);
        if let Some(slot) = self.server_epochs.get_mut(server) {
            *slot = known;
        }
        self.check_fence(&sender, known)?;
        if let Call::List(prefix) = call {
            let names = self.objects.keys().filter(|name| name.starts_with(&prefix));
            return Ok(CallAnswer::Names(names.cloned().collect()));
        }
        self.check_space(&object, &call)?;
        self.apply(&sender, &object, call, now_ns)
    }

    fn check_fence(&self, sender: &Instance, known: u64) -> Result<()> {
        match self.fences.get(sender) {
            Some(epoch) if *epoch <= known => Err(ObjectError::Fenced { instance: sender.clone() }),
            _ => Ok(()),
        }
    }

    fn check_space(&self, object: &str, call: &Call) -> Result<()> {
        let added = call.added_bytes(KEY_OVERHEAD_BYTES);
        if added > 0 && self.used_bytes().saturating_add(added) > self.capacity_bytes {
            return Err(ObjectError::Full { object: object.into() });
        }
        Ok(())
    }

    pub(super) fn used_bytes(&self) -> u64 {
        if self.capacity_bytes == u64::MAX {
            return 0; // Nobody asks, and counting takes time.
        }
        let of = |object: &Object| {
            let key = |(key, value): (&String, &Vec<u8>)| {
                KEY_OVERHEAD_BYTES + (key.len() + value.len()) as u64
            };
            object.bytes.len().unwrap_or(0) + object.keys.iter().map(key).sum::<u64>()
        };
        self.objects.values().map(of).sum()
    }

    fn apply(
        &mut self,
        sender: &Instance,
        name: &str,
        call: Call,
        now_ns: u64,
    ) -> Result<CallAnswer> {
        if call.creates_object() && !self.objects.contains_key(name) {
            self.create(name)?;
        }
        if let Call::Create = call {
            return self.create(name).map(|()| CallAnswer::Done);
        }
        if let Call::Update(update) = call {
            return self.update(name, update).map(|()| CallAnswer::Done);
        }
        if let Call::Remove = call {
            let removed = self.objects.remove(name).map(|_| CallAnswer::Done);
            let removed = removed.ok_or_else(|| ObjectError::NotFound { object: name.into() })?;
            let files = self.directory.as_ref().map_or(Ok(()), |files| files.remove(name));
            return files.map(|()| removed).map_err(failed("remove", name));
        }
        let Some(object) = self.objects.get_mut(name) else {
            return call.of_missing_object(name);
        };
        match call.split_lock() {
            Err(call) => object.bytes_or_keys(call).map_err(failed("use", name)),
            Ok((lock, call)) => object.lock(name, &lock, &call, sender, now_ns),
        }
    }

    fn create(&mut self, name: &str) -> Result<()> {
        if self.objects.contains_key(name) {
            return Err(ObjectError::Exists { object: name.into() });
        }
        let object = self.new_object(name).map_err(failed("create", name))?;
        self.objects.insert(name.into(), object);
        Ok(())
    }

    fn update(&mut self, name: &str, update: Update) -> Result<()> {
        let may_create = update.guards.is_empty() && !self.objects.contains_key(name);
        if update.creates || may_create {
            self.create(name)?;
        }
        let object = self.objects.get_mut(name);
        let object = object.ok_or_else(|| ObjectError::NotFound { object: name.into() })?;
        let differs = update
            .guards
            .iter()
            .find(|guard| object.keys.get(&guard.key) != guard.expected.as_ref());
        if let Some(guard) = differs {
            return Err(ObjectError::Guard { object: name.into(), key: guard.key.clone() });
        }
        for key in &update.remove {
            object.keys.remove(key);
        }
        object.keys.extend(update.set);
        match &self.directory {
            Some(files) => files.write_keys(name, &object.keys).map_err(failed("update", name)),
            None => Ok(()),
        }
    }
}

/// Returns the error about a file of an object.
fn failed(action: &'static str, object: &str) -> impl FnOnce(io::Error) -> ObjectError {
    let object = object.to_owned();
    move |source| ObjectError::Io { action, object, source }
}

/// Returns the number of the server that keeps the object (FNV-1a of its name).
fn server_of(object: &str) -> usize {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    (object.bytes().fold(0xcbf2_9ce4_8422_2325, step) % SERVERS) as usize
}

impl Object {
    fn bytes_or_keys(&mut self, call: Call) -> io::Result<CallAnswer> {
        Ok(match call {
            Call::Read { offset, length } => CallAnswer::Bytes(self.bytes.read(offset, length)?),
            Call::Write(parts) => {
                for (offset, bytes) in parts {
                    self.bytes.write(offset, &bytes)?;
                }
                CallAnswer::Done
            }
            Call::Append(bytes) => {
                self.bytes.write(self.bytes.len()?, &bytes)?;
                CallAnswer::Done
            }
            Call::Zero { offset, length } => {
                self.bytes.zero(offset, length)?;
                CallAnswer::Done
            }
            Call::Truncate(length) => {
                self.bytes.set_len(length)?;
                CallAnswer::Done
            }
            Call::Stat => CallAnswer::Length(self.bytes.len()?),
            Call::GetKeys(keys) => {
                CallAnswer::Values(keys.iter().map(|key| self.keys.get(key).cloned()).collect())
            }
            Call::ListKeys { after, prefix, limit } => {
                CallAnswer::Page(self.list_keys(&after, &prefix, limit))
            }
            _ => CallAnswer::Done,
        })
    }

    fn list_keys(&self, after: &str, prefix: &str, limit: usize) -> KeyPage {
        let above = self
            .keys
            .range::<str, _>((std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded));
        let mut listed = above.filter(|(key, _)| key.starts_with(prefix));
        let entries = listed.by_ref().take(limit);
        let entries = entries.map(|(key, value)| (key.clone(), value.clone())).collect();
        KeyPage { entries, has_more: listed.next().is_some() }
    }

    fn lock(
        &mut self,
        object: &str,
        name: &str,
        call: &Call,
        sender: &Instance,
        now_ns: u64,
    ) -> Result<CallAnswer> {
        self.locks.retain(|_, lock| lock.expires_ns > now_ns);
        let holder = self.locks.get(name).map(|lock| lock.holder.clone());
        let is_mine = holder.as_ref().is_some_and(|holder| holder.instance == *sender);
        let not_held = || ObjectError::NotHeld { object: object.into(), lock: name.into() };
        match call {
            Call::Lock { lease_ns, renews, .. } => match holder {
                Some(holder) if !is_mine && !*renews => Err(ObjectError::Held {
                    object: object.into(),
                    lock: name.into(),
                    holder: Box::new(holder),
                }),
                _ if *renews && !is_mine => Err(not_held()),
                _ => {
                    let holder = holder_of(sender);
                    let expires_ns = now_ns.saturating_add(*lease_ns);
                    self.locks.insert(name.into(), Lock { holder, expires_ns });
                    Ok(CallAnswer::Done)
                }
            },
            Call::Unlock(_) if is_mine => {
                self.locks.remove(name);
                Ok(CallAnswer::Done)
            }
            Call::Holder(_) => Ok(CallAnswer::Holder(holder)),
            _ => Err(not_held()),
        }
    }
}

/// Returns a client as the holder of a lock.
pub(super) fn holder_of(instance: &Instance) -> Holder {
    Holder { client: instance.0.clone(), instance: instance.clone() }
}
